"""Facts about the known sets: origin, licence, files and checksums."""

from __future__ import annotations

from dataclasses import dataclass
from pathlib import Path

from hitnet.errors import unknown_name


@dataclass(frozen=True)
class File:
    """One file of a set.

    Attributes:
        name: The file's name.
        kind: How it is read: "idx1" and "idx3" (dimensions), "cifar", "svhn", "affnist"; "zip" and "archive" are not.
        sha256: Of its content, unpacked if the name ends in .gz: compressing again changes the file, not its content.
        md5: Of the file itself, if its makers publish no other checksum.
    """

    name: str
    kind: str
    sha256: str | None = None
    md5: str | None = None


@dataclass(frozen=True)
class Download:
    """One download: a file, or an archive of several.

    Attributes:
        urls: Mirrors; the first that works is used.
        files: The files that it gives.
        archive: The archive that they come in, if any.
    """

    urls: tuple[str, ...]
    files: tuple[File, ...]
    archive: File | None = None


@dataclass(frozen=True)
class KnownSet:
    """A set that is known by name.

    Attributes:
        name: The name to open it by.
        title: What to call it in tables.
        about: One line for the list of data sets.
        page: Its home page.
        licence: Its licence.
        downloads: What to download.
        also: Other folders where its files may lie.
    """

    name: str
    title: str
    about: str
    page: str
    licence: str
    downloads: tuple[Download, ...] = ()
    also: tuple[Path, ...] = ()

    @property
    def files(self) -> tuple[File, ...]:
        return tuple(file for download in self.downloads for file in download.files)


def _idx(mirrors: tuple[str, ...], *sums: str) -> tuple[Download, ...]:
    """The four files of MNIST and its like, by the SHA-256 of their contents."""
    names = [f"{part}-{kind}-ubyte.gz" for part in ("train", "t10k") for kind in ("images-idx3", "labels-idx1")]
    return tuple(
        Download(tuple(mirror + name for mirror in mirrors), (File(name, name.split("-")[2], sha256),))
        for name, sha256 in zip(names, sums, strict=True)
    )


MNIST = KnownSet(
    "mnist",
    "MNIST",
    "handwritten digits, 60,000 + 10,000, 28 x 28 grey",
    "http://yann.lecun.com/exdb/mnist/",
    "CC BY-SA 3.0",
    _idx(
        (
            "https://ossci-datasets.s3.amazonaws.com/mnist/",
            "https://storage.googleapis.com/cvdf-datasets/mnist/",
            "http://yann.lecun.com/exdb/mnist/",
        ),
        "ba891046e6505d7aadcbbe25680a0738ad16aec93bde7f9b65e87a2fc25776db",
        "65a50cbbf4e906d70832878ad85ccda5333a97f0f4c3dd2ef09a8a9eef7101c5",
        "0fa7898d509279e482958e8ce81c8e77db3f2f8254e26661ceb7762c4d494ce7",
        "ff7bcfd416de33731a308c3f266cc351222c34898ecbeaf847f06e48f7ec33f2",
    ),
)

FASHION = KnownSet(
    "fashion-mnist",
    "Fashion-MNIST",
    "clothes, 60,000 + 10,000, 28 x 28 grey",
    "https://github.com/zalandoresearch/fashion-mnist",
    "MIT",
    _idx(
        (
            "https://github.com/zalandoresearch/fashion-mnist/raw/master/data/fashion/",
            "http://fashion-mnist.s3-website.eu-central-1.amazonaws.com/",
        ),
        "c59f468a2f672dc815687fe0f83887768d799fd8a3f3276145d20f83aa44d888",
        "bad3541b69d912435c50bb6ba87bec294ff4f6a2e1246121d8633921760443d9",
        "5b4141f0afbad91edebe8549f8fcffe087ea10ca49f1dbef5c9a5cd8815ce37b",
        "0402a96d92fd2663957122ceb108a494c5af83dab82d92729df917d7dec38c34",
    ),
    also=(Path("/usr/share/datasets/fashion-mnist"),),
)

CIFAR10 = KnownSet(
    "cifar10",
    "CIFAR-10",
    "photographs, 50,000 + 10,000, 32 x 32 RGB",
    "https://www.cs.toronto.edu/~kriz/cifar.html",
    "none stated; cite Krizhevsky 2009",
    (
        Download(
            ("https://www.cs.toronto.edu/~kriz/cifar-10-binary.tar.gz",),
            tuple(
                File(name, "cifar", sha256)
                for name, sha256 in {
                    "data_batch_1.bin": "cee916563c9f80d84e3cc88e17fdc0941787f1244f00a67874d45b261883ada5",
                    "data_batch_2.bin": "a591ca11fa1708a91ee40f54b3da4784ccd871ecf2137de63f51ada8b3fa57ed",
                    "data_batch_3.bin": "bbe8596564c0f86427f876058170b84dac6670ddf06d79402899d93ceea26f67",
                    "data_batch_4.bin": "014e562d6e23c72197cc727519169a60359f5eccd8945ad5a09d710285ff4e48",
                    "data_batch_5.bin": "755304fc0b379caeae8c14f0dac912fbc7d6cd469eb67a1029a08a39453a9add",
                    "test_batch.bin": "8e2eb146ae340b09e24670f29cabc6326dba54da8789dab6768acf480273f65b",
                }.items()
            ),
            File("cifar-10-binary.tar.gz", "archive", md5="c32a1d4ab5d03f1284b67883e8d87530"),
        ),
    ),
)

SVHN = KnownSet(
    "svhn",
    "SVHN",
    "house-number digits, cropped, 73,257 + 26,032, 32 x 32 RGB",
    "http://ufldl.stanford.edu/housenumbers/",
    "non-commercial use only",
    tuple(
        Download((f"http://ufldl.stanford.edu/housenumbers/{name}",), (File(name, "svhn", md5=md5),))
        for name, md5 in {
            "train_32x32.mat": "e26dedcc434d2e4c54c9b2d4a06d8373",
            "test_32x32.mat": "eb5a983be6a315427106f1b164d9cef3",
        }.items()
    ),
)

AFFNIST = KnownSet(
    "affnist",
    "affNIST",
    "MNIST digits on 40 x 40 grey: 60,000 placed at random, 320,000 transformed (rebuilt from MNIST unless "
    "the original test.mat or test_batches/*.mat lies in the set's folder)",
    "https://www.cs.toronto.edu/~tijmen/affNIST/",
    "none stated; the digits are MNIST's, CC BY-SA 3.0",
)

SAMPLE = KnownSet(
    "mnist-sample",
    "MNIST sample",
    "MNIST's 10,000 test images, 8,000 + 2,000, 28 x 28 grey; ships with the package",
    "http://yann.lecun.com/exdb/mnist/",
    "CC BY-SA 3.0",
)

CLOTHING = KnownSet(
    "clothing",
    "clothing",
    "photographs of clothes, 3,068 + 372 + 341 for validation, in ten classes, most 400 x 533 RGB",
    "https://github.com/alexeygrigorev/clothing-dataset-small",
    "CC0 1.0",
)

CLOTHING_SAMPLE = KnownSet(
    "clothing-sample",
    "clothing sample",
    "photographs of clothes, 1,201 in ten classes, 160 x 120 RGB; ships with the package",
    "https://github.com/alexeygrigorev/clothing-dataset-small",
    "CC0 1.0",
)

KNOWN_SETS = {
    dataset.name: dataset for dataset in (MNIST, FASHION, CIFAR10, SVHN, AFFNIST, CLOTHING, SAMPLE, CLOTHING_SAMPLE)
}
SAMPLES = (SAMPLE, CLOTHING_SAMPLE)  # they lie in the package


def known_set(name: str) -> KnownSet:
    """The known set of this name; raises HitNetError for an unknown name."""
    if name not in KNOWN_SETS:
        raise unknown_name("data set", name, KNOWN_SETS)
    return KNOWN_SETS[name]
