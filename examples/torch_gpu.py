"""
On a GPU with torch
===================

Many signals at once: tensors on a GPU are solved there, and the result is a tensor on the same GPU.
"""

import matplotlib.pyplot as plt
import torch

import sparsect

# %%
# 20,000 signals of 1,000 unknowns from 400 measurements each. ``recover`` takes torch tensors as they are. Without a
# GPU the example runs on the CPU, on fewer signals.

devices = ["cuda", "cpu"] if torch.cuda.is_available() else ["cpu"]
most = {"cuda": 20_000, "cpu": 100}
problem = sparsect.random_problem(
    m=400, n=1000, sparsity=100, snr_db=20, batch=most[devices[0]], rng=0, dtype="float32"
)

# %%
# Batches of growing size on each device, each after a run that compiles the kernels.

rates = {}
for device in devices:
    Phi, y = (torch.asarray(part, device=device) for part in (problem.Phi, problem.y))
    operator = sparsect.as_operator(Phi)
    sparsect.recover(operator, y[:10], sparsity=100)
    for batch in (size for size in (1, 10, 100, 1_000, 10_000, 20_000) if size <= most[device]):
        result = sparsect.recover(operator, y[:batch], sparsity=100)
        rates.setdefault(device, []).append((batch, batch / result.seconds))
    truth = torch.asarray(problem.x[:batch], device=device)
    print(f"{device}: x on {result.x.device}, mean SNR {float(sparsect.snr_db(truth, result.x).mean()):.1f} dB")

# %%
# The GPU needs large batches to be busy.

figure, axis = plt.subplots(figsize=(6, 4), layout="constrained")
for device, points in rates.items():
    name = torch.cuda.get_device_name() if device == "cuda" else "CPU"
    axis.loglog(*zip(*points, strict=True), "o-", label=name)
axis.set(xlabel="signals in a batch", ylabel="signals a second", title="400x1000, s = 100, 1,000 iterations")
axis.legend()
plt.show()
