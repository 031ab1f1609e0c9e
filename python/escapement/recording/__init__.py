"""What the core needs of Python while it records, whoever asked for it: numbers with symbols, operators without kernels, lines of the program."""
