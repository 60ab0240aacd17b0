"""Colours and sizes of all figures."""

INK, SOFT, FILL = "#22262b", "#6c737d", "#cfd9e6"
BLUE, RED = "#3a6ea5", "#b8442f"
WIDTH, TALLEST = 6.8, 9.6  # inches: text width on A4 paper, and the largest height of a page
MARGIN, GAP, LINE = 0.08, 0.05, 0.17
LABEL = 8  # points: font size of names
