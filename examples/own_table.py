"""Train on a table of one's own, predict what was left out, and ask why: boiling points of small molecules.

Needs RDKit. Takes some fifteen seconds: python examples/own_table.py
"""

from sklearn.metrics import mean_absolute_error

from cwnet.molecules import CINRegressor, explain

# SMILES and boiling points at normal pressure, in °C, rounded.
TABLE = """
C -162, CC -89, CCC -42, CCCC 0, CCCCC 36, CCCCCC 69, CCCCCCC 98, CCCCCCCC 126, CCCCCCCCC 151, CCCCCCCCCC 174,
CC(C)C -12, CCC(C)C 28, CC(C)(C)C 10, CCCC(C)C 60, CCC(C)CC 63, CC(C)C(C)C 58, C1CC1 -33, C1CCC1 13, C1CCCC1 49,
C1CCCCC1 81, C1CCCCCC1 118, CC1CCCC1 72, CC1CCCCC1 101, c1ccccc1 80, Cc1ccccc1 111, CCc1ccccc1 136, Cc1ccccc1C 144,
Cc1cccc(C)c1 139, CC(C)c1ccccc1 152, CCCc1ccccc1 159, c1ccc2ccccc2c1 218, C=C -104, C=CC -48, C=CCC -6, C=CCCC 30,
C=CCCCC 63, C1=CCCCC1 83, C=Cc1ccccc1 145, CO 65, CCO 78, CCCO 97, CC(C)O 83, CCCCO 118, CCCCCCO 157, OC1CCCCC1 162,
Oc1ccccc1 182, OCc1ccccc1 205, CC(C)=O 56, CCC(C)=O 80, O=C1CCCC1 131, O=C1CCCCC1 156, CCOCC 35, C1CCOC1 66,
C1COCCO1 101, c1ccoc1 31, c1ccncc1 115, c1cc[nH]c1 130, C1CCNC1 87, C1CCNCC1 106, Nc1ccccc1 184, CC#N 82,
ClC(Cl)Cl 61, Clc1ccccc1 132, Brc1ccccc1 156, CC(=O)O 118, CCOC(C)=O 77
"""
LEFT_OUT = """
Cc1ccc(C)cc1 138, CCC(C)(C)C 50, CCCCCO 138, C1CCCCCCC1 151
"""


def read(table):
    rows = [row.split() for row in table.replace("\n", " ").split(",")]
    return [smiles for smiles, _ in rows], [float(value) for _, value in rows]


def main():
    smiles, y = read(TABLE)
    new, true = read(LEFT_OUT)
    model = CINRegressor(epochs=200, width=32, batch_size=16, ensemble=2).fit(smiles, y)
    predicted = model.predict(new)
    print(f"{len(smiles)} molecules to learn from; {len(new)} others, boiling points in °C:\n")
    for text, value, guess in zip(new, true, predicted, strict=True):
        print(f"  {text:16} true {value:4.0f}   predicted {guess:4.0f}")
    print(f"\nOff by {mean_absolute_error(true, predicted):.0f} °C in the mean.")

    print("\nWhere does a prediction come from? Beginning with the saturated skeleton,")
    for why in explain(model.model_, ["Oc1ccccc1", "CCO"]):
        shares = ", ".join(f"{name} {value:+.0f}" for name, value in why.sums.items())
        print(f"  {why.smiles:10} {why.baseline:4.0f}, then {shares}, gives {why.value:.0f}")


if __name__ == "__main__":
    main()
