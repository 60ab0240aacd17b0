"""The figure of growth has each measurement, on a line for its number of classes and its device."""

from tools.draw_growth import PANELS, growth_figure


def test_every_row_is_a_point():
    device = {"gpu": "NVIDIA H200", "cpu": "x86_64"}
    rows = [
        {"device": device[where], "classes": classes, "images": images, "seconds": images / 100, "memory": images / 1e4}
        for where, classes, images in (
            ("cpu", 10, 5000),
            ("cpu", 10, 20_000),
            ("cpu", 100, 5000),
            ("gpu", 1000, 160_000),
        )
    ]
    figure = growth_figure(rows[::-1])
    for axes, name in zip(figure.axes, PANELS, strict=True):
        lines = {line.get_label(): line.get_xydata().tolist() for line in axes.lines}
        assert lines == {
            "10 classes, two CPU cores": [[5000, rows[0][name]], [20_000, rows[1][name]]],
            "100 classes, two CPU cores": [[5000, rows[2][name]]],
            "1,000 classes, H200": [[160_000, rows[3][name]]],
        }
