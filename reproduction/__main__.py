"""`python -m reproduction`."""

from hitnet.cli import main
from reproduction.cli import app

if __name__ == "__main__":
    main(app)
