"""Hooks of modules that come or go after a compile. Torch leaves out the guards that a module has none, by default and "unsafely", and guards nothing of the hooks
of all modules (`register_module_forward_hook`). Here both are guards. Two of a module's six tables name hooks of others once more, and two matter where there are gradients.
"""

import functools

import torch
from torch._dynamo import config
from torch._dynamo.guards import GuardBuilder, install_guard
from torch._dynamo.source import AttrSource
from torch._dynamo.variables import nn_module

MODULE = "torch.nn.modules.module"
OF_ALL_MODULES = ("_global_forward_pre_hooks", "_global_forward_hooks", "_global_backward_pre_hooks", "_global_backward_hooks")

guarded = functools.partial(config.patch, skip_nnmodule_hook_guards=False)   # while guards are made


def install(current_session):
    GuardBuilder.EMPTY_NN_MODULE_HOOKS_DICT = where_it_matters(GuardBuilder.EMPTY_NN_MODULE_HOOKS_DICT)
    called = nn_module.UnspecializedNNModuleVariable
    called.call_function = holding_global_hooks(called.call_function, current_session)


def possible():
    return (hasattr(config, "skip_nnmodule_hook_guards") and all(hasattr(torch.nn.modules.module, name) for name in OF_ALL_MODULES)
            and hasattr(nn_module.UnspecializedNNModuleVariable, "call_function") and hasattr(GuardBuilder, "SEQUENCE_LENGTH")
            and hasattr(GuardBuilder, "EMPTY_NN_MODULE_HOOKS_DICT"))


def where_it_matters(hold):
    @functools.wraps(hold)
    def call(builder, guard):
        name = getattr(guard.originating_source, "member", "")
        if config.skip_nnmodule_hook_guards or not name.endswith("_with_kwargs") and (torch.is_grad_enabled() or not name.startswith("_backward")):
            hold(builder, guard)

    return call


def holding_global_hooks(call_module, current_session):
    @functools.wraps(call_module)
    def call(module, tx, args, kwargs):
        if current_session() is not None:
            for name in OF_ALL_MODULES:
                install_guard(AttrSource(tx.import_source(MODULE), name).make_guard(GuardBuilder.SEQUENCE_LENGTH))
        return call_module(module, tx, args, kwargs)

    return call
