"""Slow, obviously right: layers on oriented complexes, by dense matrices or one cell at a time."""

import numpy as np
import torch

from cwnet.topology import boundary_matrix, cell_weights
from tests.reference.layers import ACTIVATIONS, linear


def dense(cells, d):
    """B_d as a dense tensor; empty where there are no cells."""
    return torch.from_numpy(np.asarray(boundary_matrix(cells, d).toarray(), dtype=np.float64))


def laplacian(lower, upper):
    return lower.T @ lower + upper @ upper.T


def contracted(cells, d):
    """W_{d-1}^{-1/2} B_d W_d^{1/2} with the contracting weights."""
    weights = [w.sqrt() for w in cell_weights(cells, contracting=True)]
    weights += [torch.ones(0, dtype=torch.float64)] * 2
    matrix = dense(cells, d)
    return matrix * weights[d] / weights[d - 1][:, None] if d else matrix


def hodge_conv(layer, x, cells):
    """act(Σ_r L_p^r H W_r + b), with a matrix W_r for every power."""
    act = ACTIVATIONS[layer.arguments["act"]]
    out = []
    for p, one in enumerate(layer.linears):
        matrix = laplacian(dense(cells, p), dense(cells, p + 1))
        weights = one.weight.split(layer.width_in, dim=1)
        total = sum(torch.matrix_power(matrix, r) @ x[p] @ w.T for r, w in enumerate(weights))
        out.append(act(total if one.bias is None else total + one.bias))
    return out


def hodge_gcn_conv(layer, x, cells):
    act = ACTIVATIONS[layer.arguments["act"]]
    out = []
    for p, one in enumerate(layer.linears):
        matrix = laplacian(contracted(cells, p), contracted(cells, p + 1))
        smooth = torch.eye(len(matrix), dtype=torch.float64) - matrix
        out.append(act(torch.stack([linear(one, v) for v in smooth @ x[p]]) if len(matrix) else x[p] @ one.weight.T))
    return out


def dirac_conv(layer, x, cells):
    act = ACTIVATIONS[layer.arguments["act"]]
    out = []
    for p, own in enumerate(layer.own):
        lower, upper = contracted(cells, p), contracted(cells, p + 1)
        smooth = torch.eye(len(x[p]), dtype=torch.float64) - laplacian(lower, upper)
        h = smooth @ x[p] @ own.weight.T + (0 if own.bias is None else own.bias)
        if p > 0:
            h = h + lower.T @ x[p - 1] @ layer.from_faces[p - 1].weight.T
        if p < layer.dim:
            h = h + upper @ x[p + 1] @ layer.from_cofaces[p].weight.T
        out.append(act(h))
    return out


def oriented_cin_conv(layer, x, cells):
    """Every message by itself, from the dense signs."""
    act = ACTIVATIONS[layer.arguments["act"]]
    out = []
    for d in range(layer.dim + 1):
        lower = dense(cells, d)
        upper = dense(cells, d + 1) if d < layer.dim else None
        rows = []
        for s in range(len(x[d])):
            parts = []
            if upper is not None:
                heard = x[d][s] + _messages(layer.upper_message[d], act, x[d], x[d + 1], upper, s)
                parts.append(linear(layer.branches["upper"][d], heard))
            if d > 0:
                faces = sum((lower[t, s] * x[d - 1][t] for t in range(len(lower))), torch.zeros_like(x[d][s]))
                parts.append(linear(layer.branches["boundary"][d - 1], x[d][s] + faces))
                heard = x[d][s] + _messages(layer.lower_message[d - 1], act, x[d], x[d - 1], lower.T, s)
                parts.append(linear(layer.branches["lower"][d - 1], heard))
            rows.append(act(linear(layer.join[d], act(torch.cat(parts)))))
        out.append(torch.stack(rows) if rows else x[d].new_zeros(0, layer.width))
    return out


def _messages(weights, act, x, met, signs, s):
    """Σ_δ [σ:δ] Σ_{τ≠σ} act([τ:δ] W₁ h_τ + W₂ h_δ), with `signs` [cells, cells they meet in]."""
    total = torch.zeros_like(x[s])
    for d in range(signs.shape[1]):
        for t in range(signs.shape[0]):
            if signs[s, d] and signs[t, d] and s != t:
                total = total + signs[s, d] * act(linear(weights, torch.cat([signs[t, d] * x[t], met[d]])))
    return total


def sheaf_conv(layer, x, cells):
    """H - act(Δ (I ⊗ W₁) H W₂), with the coboundary as one dense matrix of blocks."""
    act, s = ACTIVATIONS[layer.arguments["act"]], layer.arguments["stalk"]
    out = []
    for p in range(layer.dim):
        signs = dense(cells, p + 1)
        n, m = signs.shape
        delta = torch.zeros(m * s, n * s, dtype=torch.float64)
        size = torch.ones(n, dtype=torch.float64)
        for sigma in range(n):
            for tau in range(m):
                if signs[sigma, tau]:
                    read = torch.cat([x[p][sigma].abs(), x[p + 1][tau].abs()])
                    block = torch.tanh(linear(layer.restriction[p], read)).reshape(s, s)
                    delta[tau * s : (tau + 1) * s, sigma * s : (sigma + 1) * s] = signs[sigma, tau] * block
                    size[sigma] = size[sigma] + block.square().sum()
        scale = torch.repeat_interleave(size, s).rsqrt()
        matrix = scale[:, None] * (delta.T @ delta) * scale
        h = torch.cat([layer.mix_stalks[p].weight @ v.reshape(s, -1) for v in x[p]]) if n else x[p].reshape(0, 1)
        moved = (matrix @ h @ layer.mix_channels[p].weight.T).reshape(n, -1) if n else x[p]
        out.append(x[p] - act(moved))
    return [*out, *x[layer.dim :]]


CONVOLUTIONS = {
    "HodgeConv": hodge_conv,
    "HodgeGCNConv": hodge_gcn_conv,
    "DiracConv": dirac_conv,
    "OrientedCINConv": oriented_cin_conv,
    "SheafConv": sheaf_conv,
}


def convolve(layer, x, cells):
    return CONVOLUTIONS[type(layer).__name__](layer, x, cells)
