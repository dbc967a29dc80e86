"""What this guide has beside the weaver: directives of its own, and what the weaver is to know of PyTorch."""
