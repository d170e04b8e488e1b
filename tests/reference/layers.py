"""Slow, obviously right: layers and models as they stand in the equations, one cell at a time.

Features are a list over dimensions of a list over cells of vectors. Incidences come from the boundary lists alone. All
that is taken from a layer are its weights and the arguments it was made with.
"""

import torch

ACTIVATIONS = {
    "identity": lambda z: z,
    "relu": lambda z: torch.where(z > 0, z, torch.zeros_like(z)),
    "elu": lambda z: torch.where(z > 0, z, torch.exp(z.clamp(max=0)) - 1),
    "tanh": lambda z: 2 / (1 + torch.exp(-2 * z)) - 1,
    "silu": lambda z: z / (1 + torch.exp(-z)),
}


def vectors(x):
    """Tensors [cells, width], one per dimension, as lists of vectors."""
    return [list(h.unbind(0)) for h in x]


# ----------------------------------------------------------------------------------------------------------- incidences


def boundaries(complex_):
    """B(σ), a list over dimensions of a list over cells."""
    return [complex_.boundary(d).tolist() for d in range(len(complex_.num_cells))]


def coboundaries(complex_):
    """C(σ): every cell that has σ on its boundary."""
    below = boundaries(complex_)
    above = [[[] for _ in range(n)] for n in complex_.num_cells]
    for d in range(1, len(below)):
        for cell, faces in enumerate(below[d]):
            for face in faces:
                above[d - 1][face].append(cell)
    return above


def upper_neighbours(complex_, d):
    """For every d-cell σ all (τ, δ) with δ ∈ C(σ), τ ∈ B(δ), τ ≠ σ."""
    below, above = boundaries(complex_), coboundaries(complex_)
    return [
        [(tau, delta) for delta in above[d][sigma] for tau in below[d + 1][delta] if tau != sigma]
        for sigma in range(complex_.num_cells[d])
    ]


def lower_neighbours(complex_, d):
    """For every d-cell σ all (τ, δ) with δ ∈ B(σ), τ ∈ C(δ), τ ≠ σ."""
    below, above = boundaries(complex_), coboundaries(complex_)
    return [
        [(tau, delta) for delta in below[d][sigma] for tau in above[d - 1][delta] if tau != sigma]
        for sigma in range(complex_.num_cells[d])
    ]


def vertices(complex_, d):
    """The set of vertices of every d-cell."""
    below = boundaries(complex_)
    found = [{v} for v in range(complex_.num_cells[0])]
    for e in range(1, d + 1):
        found = [set().union(*(found[face] for face in faces)) for faces in below[e]]
    return found


# ---------------------------------------------------------------------------------------------------------- perceptrons


def linear(module, v):
    """W v + b."""
    return module.weight @ v if module.bias is None else module.weight @ v + module.bias


def statistics(many):
    """Mean and variance of vectors, the variance divided by their number."""
    mean = sum(many) / len(many)
    return mean, sum((v - mean) ** 2 for v in many) / len(many)


def batch_norm(norm, many, keep=None):
    """γ (x − μ) / √(σ² + ε) + β, with μ and σ² of the vectors to keep, or the running ones; cut off at the cap."""
    kept = [v for i, v in enumerate(many) if keep is None or keep[i]]
    if norm.training and len(kept) > 1:
        mean, var = statistics(kept)
    else:
        mean, var = norm.running_mean.clone(), norm.running_var.clone()
    out = [norm.weight * (v - mean) / torch.sqrt(var + norm.eps) + norm.bias for v in many]
    return out if norm.cap is None else [v.clamp(-norm.cap, norm.cap) for v in out]


def layer_norm(norm, many):
    """The same over the features of each vector."""
    out = []
    for v in many:
        mean = v.sum() / len(v)
        var = ((v - mean) ** 2).sum() / len(v)
        out.append(norm.norm.weight * (v - mean) / torch.sqrt(var + norm.norm.eps) + norm.norm.bias)
    return out


def normalise(norm, many, keep=None):
    kind = type(norm).__name__
    return {
        "BatchNorm": lambda: batch_norm(norm, many, keep),
        "LayerNorm": lambda: layer_norm(norm, many),
        "Identity": lambda: many,
    }[kind]()


def perceptron(mlp, many, keep=None):
    """[Linear, Norm, act], as often as the MLP has it. Before a batch norm the bias is not learnt: it cancels."""
    act = ACTIVATIONS[mlp.arguments["act"]]
    for one, norm in zip(mlp.linears, mlp.norms, strict=True):
        fixed = norm.training and type(norm).__name__ == "BatchNorm"
        bias = one.bias.detach() if fixed else one.bias
        many = [act(v) for v in normalise(norm, [one.weight @ v + bias for v in many], keep)]
    return many


# --------------------------------------------------------------------------------------------------------- convolutions


def cin_conv(layer, h, complex_, masks=None):
    """CIN and CIN++: one branch per kind of message, joined; dimensions above the layer's top are not computed."""
    eps = layer.arguments["eps"]
    kinds = list(layer.mlps)
    out = []
    for d in range(layer.top + 1):
        keep = None if masks is None else masks[d]
        branches = []
        for i, kind in enumerate(kinds):
            own = 1 + (eps if layer.eps is None else layer.eps[i, d])
            received = _cin_messages(layer, kind, h, complex_, d)
            branches.append(
                perceptron(
                    layer.mlps[kind][d],
                    [sum(messages, own * v) for v, messages in zip(h[d], received, strict=True)],
                    keep,
                )
            )
        out.append(perceptron(layer.join[d], [torch.cat(parts) for parts in zip(*branches, strict=True)], keep))
    return out


def _cin_messages(layer, kind, h, complex_, d):
    """The messages of one kind that every d-cell receives, as a list over cells of lists of vectors."""
    act = ACTIVATIONS[layer.arguments["act"]]
    if kind == "boundary":
        return [[h[d - 1][tau] for tau in faces] for faces in boundaries(complex_)[d]]
    if (kind == "upper" and d == layer.dim) or (kind == "lower" and d == 0):
        return [[] for _ in h[d]]
    pairs = upper_neighbours(complex_, d) if kind == "upper" else lower_neighbours(complex_, d)
    if not layer.arguments["shared"]:
        return [[h[d][tau] for tau, _ in row] for row in pairs]
    weights = (layer.upper_message if kind == "upper" else layer.lower_message)[d]
    met = h[d + 1] if kind == "upper" else h[d - 1]
    return [[act(linear(weights, torch.cat([h[d][tau], met[delta]]))) for tau, delta in row] for row in pairs]


def gin_conv(layer, h, complex_, masks=None):
    """GIN on vertices; everything else stays as it is."""
    keep = None if masks is None else masks[0]
    own = 1 + layer.arguments["eps"]
    summed = [
        sum((h[0][u] for u, _ in row), own * v) for v, row in zip(h[0], upper_neighbours(complex_, 0), strict=True)
    ]
    return [perceptron(layer.mlp, summed, keep), *h[1:]]


def gine_conv(layer, h, complex_, masks=None):
    """GIN-E: messages ReLU(h_u + W e_uv)."""
    keep = None if masks is None else masks[0]
    own, relu = 1 + layer.arguments["eps"], ACTIVATIONS["relu"]
    edges = [linear(layer.edge, e) if isinstance(layer.edge, torch.nn.Linear) else e for e in h[1]]
    summed = [
        sum((relu(h[0][u] + edges[e]) for u, e in row), own * v)
        for v, row in zip(h[0], upper_neighbours(complex_, 0), strict=True)
    ]
    return [perceptron(layer.mlp, summed, keep), *h[1:]]


AGGREGATES = {
    "sum": sum,
    "mean": lambda messages: sum(messages) / len(messages),
    "max": lambda messages: torch.stack(messages).amax(0),
}


def cell_conv(h, complex_, update, messages, aggregate, dim, width):
    """The general scheme: for every cell and kind of message, aggregate M(h_σ, h_τ[, h_δ]) and update.

    `messages` maps kinds to functions. These and `update` take tensors [n, width]; here n is always 1.
    """
    aggregate = AGGREGATES.get(aggregate, aggregate)
    out = []
    for d in range(dim + 1):
        senders = {kind: _senders(kind, h, complex_, d, dim) for kind in messages}
        out.append([])
        for sigma, own in enumerate(h[d]):
            received = {}
            for kind, message in messages.items():
                found = [message(own[None], *(s[None] for s in sender))[0] for sender in senders[kind][sigma]]
                received[kind] = (aggregate(found) if found else own.new_zeros(width))[None]
            out[d].append(update(own[None], **received)[0])
    return out


def _senders(kind, h, complex_, d, dim):
    """For every d-cell the vectors each of its messages reads beside its own."""
    if kind == "boundary":
        return [[(h[d - 1][tau],) for tau in row] for row in boundaries(complex_)[d]]
    if kind == "coboundary":
        return [[(h[d + 1][tau],) for tau in row if d < dim] for row in coboundaries(complex_)[d]]
    if kind == "lower":
        return [[(h[d][tau], h[d - 1][delta]) for tau, delta in row] for row in lower_neighbours(complex_, d)]
    return [[(h[d][tau], h[d + 1][delta]) for tau, delta in row if d < dim] for row in upper_neighbours(complex_, d)]


def cell_mlp(layer, h, complex_, masks=None):
    """No messages: a perceptron on every cell."""
    return [perceptron(mlp, h[d], None if masks is None else masks[d]) for d, mlp in enumerate(layer.mlps)]


def residual(layer, h, complex_, masks=None):
    """h + conv(h) where the convolution computes something; h elsewhere."""
    heard = convolve(layer.conv, h, complex_, masks)
    out = [
        old if new is old else [a + b for a, b in zip(old, new, strict=True)]
        for old, new in zip(h, heard, strict=False)
    ]
    return [*out, *h[len(heard) :]]


def gated(layer, h, complex_, masks=None):
    """g conv(h) + (1 - g) h, with the gate looking at both."""
    heard = convolve(layer.conv, h, complex_, masks)
    out = list(h)
    for d, new in enumerate(heard):
        if new is not h[d]:
            gates = [
                1 / (1 + torch.exp(-linear(layer.gates[d], torch.cat([a, b])))) for a, b in zip(h[d], new, strict=True)
            ]
            out[d] = [g * b + (1 - g) * a for g, a, b in zip(gates, h[d], new, strict=True)]
    return out


def coboundary_conv(layer, h, complex_, masks=None):
    """(1 + ε) h and the sum over cofaces, through a perceptron."""
    above, own = coboundaries(complex_), 1 + layer.arguments["eps"]
    out = []
    for d, mlp in enumerate(layer.mlps):
        cofaces = [[h[d + 1][i] for i in row] if d < layer.dim else [] for row in above[d]]
        heard = [sum(many, own * v) for v, many in zip(h[d], cofaces, strict=True)]
        out.append(perceptron(mlp, heard, None if masks is None else masks[d]))
    return out


def attend(query, keys, values, heads):
    """Softmax attention of one query, head by head; nothing to attend to gives zero."""
    if not keys:
        return torch.zeros_like(query)
    width, out = len(query) // heads, []
    for part in [slice(i * width, (i + 1) * width) for i in range(heads)]:
        scores = torch.stack([(query[part] * k[part]).sum() / width**0.5 for k in keys])
        weights = torch.exp(scores) / torch.exp(scores).sum()
        out.append(sum(w * v[part] for w, v in zip(weights, values, strict=True)))
    return torch.cat(out)


def attention_conv(layer, h, complex_, masks=None):
    """Attention over the boundary and over the coboundary, beside what the cell is itself."""
    qkv = [[linear(one, v).chunk(3) for v in h[d]] for d, one in enumerate(layer.maps)]
    below, above = boundaries(complex_), coboundaries(complex_)
    out = []
    for d, join in enumerate(layer.join):
        joined = []
        for i, v in enumerate(h[d]):
            parts = [v]
            for e, rows in ((d - 1, below), (d + 1, above)):
                if 0 <= e <= layer.dim:
                    met = [qkv[e][j] for j in rows[d][i]]
                    parts.append(attend(qkv[d][i][0], [k for _, k, _ in met], [u for _, _, u in met], layer.heads))
            joined.append(torch.cat(parts))
        out.append(perceptron(join, joined, None if masks is None else masks[d]))
    return out


def virtual_cell(layer, h, complex_, masks=None):
    """Pool every dimension of a complex, transform, and add the result to each of its cells."""
    ptrs = [[0, n] for n in complex_.num_cells]
    if hasattr(complex_, "cell_ptr"):
        ptrs = [ptr.tolist() for ptr in complex_.cell_ptr]
    dims, number = range(layer.dim + 1), len(ptrs[0]) - 1
    spans = [[slice(ptrs[d][i], ptrs[d][i + 1]) for d in dims] for i in range(number)]
    whole = [torch.cat([pool(h[d][span[d]], layer.pool, h[0][0]) for d in dims]) for span in spans]
    out = [list(many) for many in h]
    for span, u in zip(spans, perceptron(layer.mlp, whole), strict=True):
        back = linear(layer.back, u).chunk(len(dims))
        for d in dims:
            out[d][span[d]] = [v + back[d] for v in h[d][span[d]]]
    return out


def pool(many, name, like):
    """Sum, mean and maximum of vectors, those that are asked for side by side; zeros of none."""
    added = sum(many, torch.zeros_like(like))
    largest = torch.stack(list(many)).amax(0) if many else added
    ways = {"sum": added, "mean": added / max(len(many), 1), "max": largest}
    parts = {"both": ("sum", "mean"), "all": ("sum", "mean", "max")}.get(name, (name,))
    return torch.cat([ways[part] for part in parts])


CONVOLUTIONS = {
    "AttentionConv": attention_conv,
    "CoboundaryConv": coboundary_conv,
    "Gated": gated,
    "Residual": residual,
    "VirtualCell": virtual_cell,
    "CINConv": cin_conv,
    "CINppConv": cin_conv,
    "GINConv": gin_conv,
    "GINEConv": gine_conv,
    "CellMLP": cell_mlp,
}


def convolve(layer, h, complex_, masks=None):
    return CONVOLUTIONS[type(layer).__name__](layer, h, complex_, masks)


# ----------------------------------------------------------------------------------------- encoders, readout, the whole


def from_vertices(h0, complex_, d, reduce):
    """The sum or mean of the vectors of a cell's vertices."""
    return [
        sum(h0[v] for v in sorted(members)) / (len(members) if reduce == "mean" else 1)
        for members in vertices(complex_, d)
    ]


def encode(encoder, cells):
    """The features that a `CellEncoder` gives, without dropout."""
    h = []
    for d, one in enumerate(encoder.encoders):
        count = cells.num_cells[d]
        given = None if cells.x[d] is None else cells.x[d].reshape(count, -1)
        kind = type(one).__name__
        if kind == "Categories":
            h.append([sum(t.weight[c] for t, c in zip(one.tables, row, strict=True)) for row in given.tolist()])
        elif kind == "Linear":
            h.append([linear(one.linear, v.to(one.linear.weight.dtype)) for v in given])
        elif kind == "Raw":
            h.append(list(given))
        elif kind == "Constant":
            h.append([one.value for _ in range(count)])
        elif kind == "Zeros":
            h.append([torch.zeros_like(h[0][0]) for _ in range(count)])
        else:
            h.append(from_vertices(h[0], cells, d, one.arguments["reduce"]))
    return h


def readout(module, h, batch):
    """Σ_d act(W_d POOL_{dim σ = d} h_σ + b_d) for each complex, without dropout."""
    act = ACTIVATIONS[module.arguments["act"]]
    out = []
    for i in range(len(batch)):
        total = 0
        for one, d in zip(module.linears, module.dims, strict=True):
            start, stop = batch.cell_ptr[d][i : i + 2].tolist()
            total = total + act(linear(one, pool(h[d][start:stop], module.pool, h[0][0])))
        out.append(total)
    return out


def network(model, batch, masks=None):
    """A whole `CIN`: encode, convolve, read out, predict; without dropout."""
    h = encode(model.encoder, batch)
    seen = []
    for conv in model.convs:
        h = convolve(conv, h, batch, masks)
        seen.append(h)
    if model.jumping:
        h = [[torch.cat(many) for many in zip(*layers, strict=True)] for layers in zip(*seen, strict=True)]
    one = h[model.head.dim] if model.readout is None else readout(model.readout, h, batch)
    return torch.stack([linear(model.head.linear, v) for v in one])


# ---------------------------------------------------------------------------------------------------------- comparison


def randomise(module, seed=0):
    """Draw every weight and running average anew, so that none is 0 or 1 by birth."""
    generator = torch.Generator().manual_seed(seed)
    with torch.no_grad():
        for tensor in module.parameters():
            tensor.copy_(torch.randn(tensor.shape, generator=generator, dtype=tensor.dtype) / max(tensor.shape) ** 0.5)
        for name, tensor in module.named_buffers():
            if "running" in name:
                tensor.copy_(torch.rand(tensor.shape, generator=generator, dtype=tensor.dtype) + 0.5)
    return module


def assert_close(found, expected, tolerance, what="", largest=None):
    """Equal up to `tolerance`, relative to the largest number expected (or given) where that is above one."""
    assert found.shape == expected.shape, f"{what}: {tuple(found.shape)}, not {tuple(expected.shape)}"
    if expected.numel():
        largest = max(1.0, float(expected.detach().abs().max()) if largest is None else largest)
        difference = float((found - expected).detach().abs().max()) / largest
        assert difference <= tolerance, f"{what}: off by {difference:.1e} of {largest:.1e}"


def assert_agree(found, expected, leaves, tolerance):
    """Two lists of tensors have the same values, and the same gradients with respect to all named leaves.

    Gradients are compared relative to the largest of all: that of a bias before a batch norm is zero, as a sum of terms
    that are not.
    """
    generator = torch.Generator().manual_seed(0)
    weights = [torch.randn(f.shape, generator=generator, dtype=f.dtype) for f in found]
    for d, (f, e) in enumerate(zip(found, expected, strict=True)):
        assert_close(f, e, tolerance, f"output {d}")
    gradients = []
    for outputs in (found, expected):
        loss = sum((w * o).sum() for w, o in zip(weights, outputs, strict=True))
        some = torch.autograd.grad(loss, list(leaves.values()), allow_unused=True, retain_graph=True)
        gradients.append([torch.zeros_like(v) if g is None else g for v, g in zip(leaves.values(), some, strict=True)])
    largest = max(float(g.abs().max()) for g in gradients[1] if g.numel())
    for name, f, e in zip(leaves, *gradients, strict=True):
        assert_close(f, e, tolerance, f"gradient of {name}", largest)
