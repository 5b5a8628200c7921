"""L-BFGS on all of the data at once, one iteration a step, with a state that can be stored."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import Any

import torch
from torch import Tensor

#: The pairs of changes of weights and gradient that are remembered, and the evaluations of the loss
#: that a line search may use.
HISTORY, SEARCH = 100, 25
#: The numbers and the tensors of torch's state that the next iteration needs.
NUMBERS = ("n_iter", "func_evals", "t", "H_diag", "prev_loss")
TENSORS, LISTS = ("d", "prev_flat_grad"), ("old_dirs", "old_stps", "ro")


class LBFGS(torch.optim.LBFGS):
    """One iteration of L-BFGS a step, with a line search for the strong Wolfe conditions.

    The objective is the loss plus `weight_decay` / 2 times the sum of the squared weights.
    """

    def __init__(
        self, parameters: Sequence[Tensor], lr: float, weight_decay: float, tolerance: float
    ) -> None:
        super().__init__(
            parameters,
            lr,
            max_iter=1,
            max_eval=1 + SEARCH,
            tolerance_grad=tolerance,
            tolerance_change=0.0,
            history_size=HISTORY,
            line_search_fn="strong_wolfe",
        )
        self.weight_decay = weight_decay
        self.converged = False
        # The last evaluation: the weights, the objective, and its gradient.
        self.last: tuple[Tensor, Tensor, Tensor] | None = None

    def learn(self, loss_of: Callable[[], Tensor]) -> Tensor:
        """Take a step, and return the objective before it; `loss_of` gives the present loss."""
        state = self.state[self._params[0]]
        before, earlier = self._flat(), state.get("prev_loss")
        objective: Tensor = self.step(lambda: self._evaluate(loss_of))  # type: ignore[no-untyped-call]
        for name in ("t", "H_diag"):
            if name in state:  # sometimes a tensor, which a checkpoint would not tell from a number
                state[name] = float(state[name])
        # No step is taken where the gradient is within the tolerance; a step that does not lower
        # the objective is at the end of what rounding allows.
        stuck = earlier is not None and not float(objective) < earlier
        self.converged = stuck or torch.equal(before, self._flat())
        return objective.detach()

    def _evaluate(self, loss_of: Callable[[], Tensor]) -> Tensor:
        """The objective and its gradient, which are known already after most line searches."""
        here = self._flat()
        if self.last is not None and torch.equal(here, self.last[0]):
            parts = torch.split(self.last[2], [parameter.numel() for parameter in self._params])
            for parameter, part in zip(self._params, parts):
                parameter.grad = part.view_as(parameter).clone()
            return self.last[1]
        self.zero_grad()
        objective = loss_of()
        if self.weight_decay:
            squares = [parameter.square().sum() for parameter in self._params]
            objective = objective + self.weight_decay / 2 * torch.stack(squares).sum()
        torch.autograd.backward(objective)
        gradient = self._gather_flat_grad()  # type: ignore[no-untyped-call]
        self.last = here, objective.detach(), gradient
        return self.last[1]

    def _flat(self) -> Tensor:
        return torch.cat([parameter.detach().flatten() for parameter in self._params])

    def stored(self) -> dict[str, Tensor]:
        """What the next step needs besides the weights, under names for a checkpoint."""
        state: dict[str, Any] = self.state[self._params[0]]
        if "d" not in state:
            return {}
        kept = {name: state[name] for name in TENSORS}
        kept["numbers"] = torch.tensor([float(state[n]) for n in NUMBERS], dtype=torch.float64)
        # The history is empty before the second step.
        kept |= {name: torch.stack(state[name]) for name in LISTS if state[name]}
        if self.last is not None and torch.equal(self.last[0], self._flat()):
            kept |= {"objective": self.last[1], "gradient": self.last[2]}
        return {f"lbfgs/{name}": tensor for name, tensor in kept.items()}

    def resume(self, saved: dict[str, Tensor]) -> None:
        """Continue from what `stored` gave, with the weights of that time already in place."""
        kept = {
            name.removeprefix("lbfgs/"): tensor.clone()
            for name, tensor in saved.items()
            if name.startswith("lbfgs/")
        }
        if not kept:
            return
        state: dict[str, Any] = dict(zip(NUMBERS, kept["numbers"].tolist()))
        state |= {name: int(state[name]) for name in NUMBERS[:2]}
        state |= {name: kept[name] for name in TENSORS}
        # Each row in memory of its own, aligned by torch: products may round differently otherwise.
        state |= {name: [row.clone() for row in kept.get(name, ())] for name in LISTS}
        self.state[self._params[0]] = state
        if "objective" in kept:
            self.last = self._flat(), kept["objective"], kept["gradient"]
