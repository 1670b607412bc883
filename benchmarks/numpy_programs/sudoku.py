"""A sudoku, by the cell with the fewest candidates and backtracking."""

from typing import Any

import numpy as np

PUZZLE = """
53..7....
6..195...
.98....6.
8...6...3
4..8.3..1
7...2...6
.6....28.
...419..5
....8..79
"""


def candidates(board: Any, row: int, column: int) -> Any:
    """Return the digits that no other cell of the row, the column and the box has."""
    top, left = row // 3 * 3, column // 3 * 3
    box = board[top : top + 3, left : left + 3].ravel()
    used = np.union1d(np.union1d(board[row], board[:, column]), box)
    return np.setdiff1d(np.arange(1, 10), used)


def solve(board: Any) -> bool:
    """Fill the board in place; return whether there is a solution."""
    free = np.argwhere(board == 0)
    if len(free) == 0:
        return True
    choices = [candidates(board, row, column) for row, column in free]
    best = int(np.argmin([len(choice) for choice in choices]))
    row, column = free[best]
    for digit in choices[best]:
        board[row, column] = digit
        if solve(board):
            return True
    board[row, column] = 0
    return False


def main() -> Any:
    """Return the solution, and the sums of its rows, columns and boxes."""
    board = np.array([[int(cell) if cell != "." else 0 for cell in line] for line in PUZZLE.split()], dtype=np.int8)
    assert solve(board)
    boxes = board.reshape(3, 3, 3, 3).swapaxes(1, 2).reshape(9, 9)
    return board, board.sum(axis=0), board.sum(axis=1), boxes.sum(axis=1)


if __name__ == "__main__":
    print(main()[0])
