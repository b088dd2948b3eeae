"""A plugin for sessions that import torchvision beside a torch for CPUs alone.

The registry's torchvision is built for CUDA: its operators are not loaded then, and its own
import fails as it looks for two of them. Nothing here asks for them.
"""

import torch

LIBRARY = torch.library.Library("torchvision", "FRAGMENT")
if not torch.version.cuda:
    for name in ("nms", "qnms"):
        if not hasattr(torch.ops.torchvision, name):
            LIBRARY.define(f"{name}(Tensor dets, Tensor scores, float iou_threshold) -> Tensor")
