"""WebDriver's codes of the keys that are no characters."""

ENTER = "\ue007"
ESCAPE = "\ue00c"
ARROW_DOWN = "\ue015"
ARROW_UP = "\ue013"
ARROW_RIGHT = "\ue014"
END = "\ue010"
HOME = "\ue011"
