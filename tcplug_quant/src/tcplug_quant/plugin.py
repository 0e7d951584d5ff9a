"""Offers the weight formats and the recipes made of them."""

from truecluster.api import FormatSpec, QuantizerSpec, hookimpl


def _recipe(name: str, summary: str, linear: str, head: str, embedding: str) -> QuantizerSpec:
    roles = {"linear": linear, "head": head, "embedding": embedding, "norm": "keep", "bias": "keep"}
    return QuantizerSpec(name=name, roles=roles, summary=summary)


@hookimpl
def truecluster_quantizers():  # type: ignore[no-untyped-def]
    yield FormatSpec(name="fp32", target="tcplug_quant.floats:Fp32", summary="4 bytes a weight.")
    yield FormatSpec(name="fp16", target="tcplug_quant.floats:Fp16", summary="2 bytes a weight, up to 65504.")
    yield FormatSpec(name="bf16", target="tcplug_quant.floats:Bf16", summary="2 bytes a weight, fp32's range.")
    yield FormatSpec(name="int8", target="tcplug_quant.int8:Int8", summary="1 byte a weight, a scale per row.")
    yield FormatSpec(
        name="int4", target="tcplug_quant.int4:Int4", summary="4 bits a weight, a scale per 32, 64 or 128."
    )
    for name in ("fp16", "bf16", "fp32"):
        yield _recipe(name, f"Every matrix in {name}.", name, name, name)
    yield _recipe("int8", "Every matrix in 8 bits, a scale per output channel.", "int8", "int8", "int8")
    yield _recipe(
        "int4", "Blocks in 4 bits, quant groups of 32, asymmetric; ends in int8.", "int4.g32.asym", "int8", "int8"
    )
    yield _recipe(
        "int4.*",
        "Blocks in a member of int4, such as int4.g64.asym; int4.g128 is int4.g128.sym.",
        "int4.*",
        "int8",
        "int8",
    )
