"""WebDriver's codes of keys that are not characters."""

ENTER = "\ue007"
ESCAPE = "\ue00c"
ARROW_DOWN = "\ue015"
ARROW_UP = "\ue013"
ARROW_RIGHT = "\ue014"
END = "\ue010"
HOME = "\ue011"
