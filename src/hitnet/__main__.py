"""`python -m hitnet`, the same as the command `hitnet`."""

from hitnet.startup import main

if __name__ == "__main__":
    main()
