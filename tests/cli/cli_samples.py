"""Data that the tests of the command line write for themselves."""

from PIL import Image


def write_folder(root, images, *, labels=None):
    """Images as PNG files in class folders."""
    for i, k in enumerate((images.labels if labels is None else labels).tolist()):
        folder = root / images.class_names[k]
        folder.mkdir(parents=True, exist_ok=True)
        Image.fromarray(images.pixels[i, 0].numpy()).save(folder / f"{i:03}.png")
    return root
