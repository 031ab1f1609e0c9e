"""Programs whose host code no recording may hold still: globals, values, random numbers, exceptions, aliasing, things that
outlive the call. Each is a maker, called once for eager and once for replay, so that both have a state of their own; what it
returns takes a matrix of any size and a step number."""

import random

import torch

PROGRAMS = {}
RAISING = {"reads_past_the_end", "shape_error", "raises_between"}


def program(maker):
    PROGRAMS[maker.__name__] = maker
    return maker


@program
def chain():
    return lambda x, step: torch.relu(x * 2 + 1).sigmoid() - x


@program
def global_number_changes():
    state = {"scale": 1.0}

    def run(x, step):
        state["scale"] *= 0.9
        return torch.tanh(x * state["scale"]) + 1
    return run


@program
def two_learning_rates():
    def run(x, step):
        slow, fast = 0.1 / (step + 1), 0.5 / (step + 2)
        return torch.exp(x * slow).add(x.mul(fast), alpha=slow).relu()
    return run


@program
def counter_as_number():
    count = [0]

    def run(x, step):
        count[0] += 1
        return (x + count[0]).abs() * 3
    return run


@program
def global_tensor_is_replaced():
    state = {"bias": torch.ones(1)}

    def run(x, step):
        out = (x + state["bias"]).relu()
        state["bias"] = torch.full((1,), float(step))
        return out + state["bias"]
    return run


@program
def branch_on_a_value():
    def run(x, step):
        y = x * 2
        if y.sum() > 0:
            return torch.exp(y) + 1
        return torch.relu(y) - 1
    return run


@program
def branch_on_a_size():
    def run(x, step):
        return x.relu() + 1 if x.shape[0] > 3 else x.sigmoid() * 2
    return run


@program
def random_branches():
    def run(x, step):
        y = x + 1
        for _ in range(3):
            y = torch.tanh(y) if random.random() < 0.5 else y * y
        return y
    return run


@program
def early_exit_loop():
    def run(x, step):
        y = torch.ones_like(x) * 4
        turns = 0
        while turns < 20 and bool((y.abs() > 0.3).any()):
            y = y / 2 + x * 0.01
            turns += 1
        return y, turns
    return run


@program
def loop_over_a_size():
    def run(x, step):
        total = torch.zeros(x.shape[1])
        for i in range(min(x.shape[0], 5)):
            total = total + x[i] * (i + 1)
        return total
    return run


@program
def list_that_grows():
    kept = []

    def run(x, step):
        kept.append((x.sum(1) + step).mean())
        del kept[:-4]
        return torch.stack(kept).sum()
    return run


@program
def in_place_on_results():
    def run(x, step):
        y = x * 3
        view = y.t()
        y.add_(1)
        view.mul_(2)
        return y, view
    return run


@program
def in_place_on_the_argument():
    def run(x, step):
        y = x + 1
        x.mul_(2)
        z = x + y
        x.add_(z)
        return z
    return run


@program
def in_place_on_a_row():
    def run(x, step):
        y = x.clone()
        if y.shape[0] > 1:
            y[1].add_(10)
        return y * 2, y
    return run


@program
def views_of_the_argument():
    def run(x, step):
        return x.t(), x[:, 1:], x.unsqueeze(0), x.reshape(-1), x.view(x.shape[1], x.shape[0]) + 1
    return run


@program
def slices_move():
    def run(x, step):
        low = step % 2
        return x[low:, : x.shape[1] - low].sum(1), x[-1:] * 2
    return run


@program
def sizes_make_tensors():
    def run(x, step):
        rows, columns = x.shape
        return torch.zeros(rows, columns) + torch.arange(columns) + x, torch.ones(columns).sum()
    return run


@program
def reductions_and_broadcasts():
    def run(x, step):
        centred = x - x.mean(1, keepdim=True)
        return centred / (centred.pow(2).sum(1, keepdim=True) + 1).sqrt(), x.sum()
    return run


@program
def matrices():
    weight, bias = torch.arange(12.0).reshape(3, 4) / 10, torch.ones(3)

    def run(x, step):
        y = torch.nn.functional.linear(x.mean(1, keepdim=True).expand(-1, 4), weight, bias)
        return torch.softmax(y @ y.t(), -1)
    return run


@program
def dropout_with_a_seed():
    def run(x, step):
        torch.manual_seed(step)
        y = torch.nn.functional.dropout(x * 2 + 1, 0.5, True)
        return y + torch.rand_like(x) * 2, torch.rand(2)
    return run


@program
def noise_between():
    def run(x, step):
        y = x + 1
        noise = torch.randn(x.shape)
        return y * noise + torch.randn(x.shape)
    return run


@program
def shape_error():
    def run(x, step):
        y = x + 1
        try:
            z = y * torch.ones(x.shape[1] + 2 * (step % 2)) + 1
        except RuntimeError as error:
            return y * 2, str(error)
        return z
    return run


@program
def raises_between():
    seen = []

    def run(x, step):
        y = (x * 2).relu()
        seen.append(y)
        if step % 3 == 1:
            raise ValueError(f"step {step}: {len(seen)} seen, {float(seen[-1].sum())}")
        return y + 1, len(seen)
    return run


@program
def reads_past_the_end():
    def run(x, step):
        return (x + 1)[step % 4] * 2
    return run


@program
def index_error_is_caught():
    def run(x, step):
        table = torch.arange(5.0) * 2
        index = torch.tensor([step % 7])
        try:
            return table[index] + x.sum()
        except IndexError:
            return x.sum() - 1
    return run


@program
def result_is_stored():
    state = {}

    def run(x, step):
        before = state.get("last")
        state["last"] = (x + step).mean()
        return state["last"] * 2 if before is None else before + state["last"]
    return run


@program
def stored_view_is_written_later():
    state = {}

    def run(x, step):
        if "view" in state:
            state["view"].add_(1)
        base = torch.zeros(3) + step
        state["base"], state["view"] = base, base[1:]
        return base * 2
    return run


@program
def generator_function():
    def run(x, step):
        def parts():
            y = x
            for i in range(step % 3 + 1):
                y = torch.relu(y + i)
                yield y
        return list(parts())
    return run


@program
def data_dependent_size():
    def run(x, step):
        chosen = (x * 2)[x > 0]
        return chosen + 1, chosen.shape[0], (chosen * chosen).sum()
    return run


@program
def reads_memory():
    def run(x, step):
        y = x * 2 + 1
        total = float(y.numpy().sum())
        return y + total, y.tolist()
    return run


@program
def foreign_memory():
    import numpy

    buffer = numpy.zeros(4, dtype=numpy.float32)

    def run(x, step):
        buffer[:] = step
        a = torch.from_numpy(buffer) * 2
        buffer[:] = step + 1
        b = torch.from_numpy(buffer) * 2
        return a + b + x.sum()
    return run


@program
def metadata_is_asked():
    def run(x, step):
        y = (x + 1).t()
        strides = y.stride() if y.numel() else ()   # of an empty tensor they address nothing, and ATen has several
        facts = (y.shape, strides, y.is_contiguous(), y.dtype, y.requires_grad, y.storage_offset(), y.numel(), y.dim())
        return y.contiguous().view(-1) * 2, facts, y[y.shape[0] // 2:].storage_offset() if y.numel() else 0
    return run


@program
def same_object_comes_back():
    def run(x, step):
        y = x.relu()
        return y, y, x, y is x.relu_() if step % 2 else None
    return run


@program
def cat_split_stack():
    def run(x, step):
        both = torch.cat([x, x * 2, x.new_ones(step % 3, x.shape[1])])
        return [part + 1 for part in both.chunk(2)], torch.stack([x, x + 1]).sum(0)
    return run


@program
def module_in_training():
    torch.manual_seed(5)
    norm = torch.nn.BatchNorm1d(4)

    def run(x, step):
        norm.train(step % 2 == 0)
        y = norm(x.mean(1, keepdim=True).repeat(1, 4) * torch.arange(1.0, 5.0)) if x.shape[0] > 1 else x
        return y * 2, norm.running_mean + 0
    return run


@program
def types_meet():
    def run(x, step):
        i = torch.arange(x.shape[1])
        return x.double() * i + 1, (x > 0) & (i > step), (x * 10).long() // 3, x.half() + 1, i % 2
    return run


@program
def gradients_inside():
    def run(x, step):
        with torch.enable_grad():
            w = torch.ones(x.shape[1], requires_grad=True)
            loss = ((x * w).tanh() * 2).sum()
            loss.backward()
        return w.grad * 2 + 1, loss.detach()
    return run


@program
def optimiser_by_hand():
    state = {"w": torch.zeros(3), "m": torch.zeros(3)}

    def run(x, step):
        gradient = state["w"] * 0.5 + x.mean() - 1
        rate = 0.1 / (1 + step)
        state["m"].mul_(0.9).add_(gradient, alpha=0.1)
        state["w"].sub_(state["m"] * rate)
        return state["w"].norm()
    return run


@program
def metadata_in_place():
    def run(x, step):
        y = x * 2
        y.unsqueeze_(0)
        z = y + 1
        z.squeeze_(0)
        return z.t_() * 2, y.shape
    return run


@program
def autocast_inside():
    def run(x, step):
        with torch.autocast("cpu", dtype=torch.bfloat16, enabled=step % 2 == 0):
            y = (x + 1) @ x.t()
            return y * 2
    return run


@program
def inference_mode_inside():
    def run(x, step):
        y = x + 1
        with torch.inference_mode():
            z = y * 2
        return y.relu() + 1, z.sum().item()
    return run


@program
def data_is_replaced():
    holder = torch.zeros(2)

    def run(x, step):
        before = holder * 2
        holder.data = (x.sum() + torch.arange(2.0)) * 1
        return before, holder + 1
    return run
