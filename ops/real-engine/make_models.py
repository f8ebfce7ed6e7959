#!/usr/bin/env python3
"""Writes three tiny GGUF files with random weights, for tests of model hosts against a real llama-server.

tiny-chat.gguf       a language model (architecture llama) with a chat template and infill tokens
tiny-embed.gguf      an encoder (architecture bert) for embeddings
tiny-rerank.gguf     the same with a classification head, for rankings

The weights come from a fixed seed: the files are the same on every run. The models say nothing sensible; what they generate
follows grammars, stop strings and limits like that of any other model.
"""

import argparse
from pathlib import Path

import gguf
import numpy

SEED = 18
WIDTH = 64
HIDDEN = 128
HEADS = 2
LAYERS = 2
CONTEXT = 4096

NORMAL, UNKNOWN, CONTROL, USER_DEFINED, BYTE = 1, 2, 3, 4, 6

# ChatML with tool calls as Hermes models write them.
CHAT_TEMPLATE = """{%- if tools %}<|im_start|>system
Answer with <tool_call>{"name": NAME, "arguments": OBJECT}</tool_call> to call one of these tools:
{%- for tool in tools %}
{{ tool | tojson }}
{%- endfor %}<|im_end|>
{% endif -%}
{%- for message in messages -%}
<|im_start|>{{ message.role }}
{% if message.content is string %}{{ message.content }}{% endif -%}
{%- for call in message.tool_calls or [] %}
<tool_call>{"name": "{{ call.function.name }}", "arguments": {{ call.function.arguments | tojson }}}</tool_call>
{%- endfor %}<|im_end|>
{% endfor -%}
{%- if add_generation_prompt %}<|im_start|>assistant
{% endif -%}"""

WORDS = """the a of to and in is it you that he was for on are with as his they be at one have this from or had by hot but some what
there we can out other were all your when up use word how said an each she which do their time if will way about many then them
would write like so these her long make thing see him two has look more day could go come did my sound no most number who over know
water than call first people may down side been now find mill river wheel turns runs hill""".split()


def random_tensors(writer: gguf.GGUFWriter, shapes: dict[str, tuple[int, ...]]) -> None:
    random = numpy.random.default_rng(SEED)
    for name, shape in shapes.items():
        if "norm" in name:
            values = numpy.ones(shape) if name.endswith("weight") else numpy.zeros(shape)
        else:
            values = random.normal(0, 0.3, shape)
        writer.add_tensor(name, values.astype(numpy.float32))


def language_model(path: Path) -> None:
    tokens = ["<unk>", "<s>", "</s>", "<|im_start|>", "<|im_end|>", "<PRE>", "<SUF>", "<MID>"]
    types = [UNKNOWN] + [CONTROL] * (len(tokens) - 1)
    tokens.append("<tool_call>")
    types.append(USER_DEFINED)
    scores = [0.0] * len(tokens)
    for byte in range(256):
        tokens.append(f"<0x{byte:02X}>")
        types.append(BYTE)
        scores.append(0.0)
    pieces = list("abcdefghijklmnopqrstuvwxyzABCDEFGHIJKLMNOPQRSTUVWXYZ0123456789.,:;!?'\"()[]{}<>_-+=*/\\|#$%&@\n") + ["\u2581"]
    pieces += [word for word in WORDS if len(word) > 1] + ["\u2581" + word for word in WORDS]
    for piece in dict.fromkeys(pieces):
        tokens.append(piece)
        types.append(NORMAL)
        scores.append(float(len(piece) - 20))

    writer = gguf.GGUFWriter(path, "llama")
    writer.add_name("tiny-chat")
    writer.add_context_length(CONTEXT)
    writer.add_embedding_length(WIDTH)
    writer.add_block_count(LAYERS)
    writer.add_feed_forward_length(HIDDEN)
    writer.add_head_count(HEADS)
    writer.add_head_count_kv(HEADS)
    writer.add_layer_norm_rms_eps(1e-5)
    writer.add_rope_dimension_count(WIDTH // HEADS)
    writer.add_vocab_size(len(tokens))
    writer.add_tokenizer_model("llama")
    writer.add_token_list(tokens)
    writer.add_token_scores(scores)
    writer.add_token_types(types)
    writer.add_unk_token_id(0)
    writer.add_bos_token_id(1)
    writer.add_eos_token_id(2)
    writer.add_eot_token_id(4)
    writer.add_uint32("tokenizer.ggml.fim_pre_token_id", 5)
    writer.add_uint32("tokenizer.ggml.fim_suf_token_id", 6)
    writer.add_uint32("tokenizer.ggml.fim_mid_token_id", 7)
    writer.add_add_bos_token(True)
    writer.add_add_space_prefix(False)
    writer.add_chat_template(CHAT_TEMPLATE)
    shapes = {"token_embd.weight": (len(tokens), WIDTH), "output_norm.weight": (WIDTH,), "output.weight": (len(tokens), WIDTH)}
    for at in range(LAYERS):
        block = f"blk.{at}"
        shapes |= {
            f"{block}.attn_norm.weight": (WIDTH,),
            f"{block}.attn_q.weight": (WIDTH, WIDTH),
            f"{block}.attn_k.weight": (WIDTH, WIDTH),
            f"{block}.attn_v.weight": (WIDTH, WIDTH),
            f"{block}.attn_output.weight": (WIDTH, WIDTH),
            f"{block}.ffn_norm.weight": (WIDTH,),
            f"{block}.ffn_gate.weight": (HIDDEN, WIDTH),
            f"{block}.ffn_up.weight": (HIDDEN, WIDTH),
            f"{block}.ffn_down.weight": (WIDTH, HIDDEN),
        }
    random_tensors(writer, shapes)
    finish(writer)


def encoder(path: Path, ranks: bool) -> None:
    tokens = ["[PAD]", "[UNK]", "[CLS]", "[SEP]", "[MASK]"]
    types = [CONTROL] * len(tokens)
    # A word begins with this mark; what follows within a word has none.
    for piece in dict.fromkeys(["\u2581" + word for word in WORDS] + list("abcdefghijklmnopqrstuvwxyz") + ["\u2581" + letter for letter in "abcdefghijklmnopqrstuvwxyz.,?!"]):
        tokens.append(piece)
        types.append(NORMAL)

    writer = gguf.GGUFWriter(path, "bert")
    writer.add_name("tiny-rerank" if ranks else "tiny-embed")
    writer.add_context_length(512)
    writer.add_embedding_length(WIDTH)
    writer.add_block_count(LAYERS)
    writer.add_feed_forward_length(HIDDEN)
    writer.add_head_count(HEADS)
    writer.add_layer_norm_eps(1e-12)
    writer.add_causal_attention(False)
    writer.add_pooling_type(gguf.PoolingType.RANK if ranks else gguf.PoolingType.MEAN)
    writer.add_vocab_size(len(tokens))
    writer.add_token_type_count(2)
    writer.add_tokenizer_model("bert")
    writer.add_token_list(tokens)
    writer.add_token_types(types)
    writer.add_unk_token_id(1)
    writer.add_bos_token_id(2)
    writer.add_sep_token_id(3)
    writer.add_eos_token_id(3)
    writer.add_pad_token_id(0)
    writer.add_mask_token_id(4)
    shapes = {
        "token_embd.weight": (len(tokens), WIDTH),
        "token_types.weight": (2, WIDTH),
        "position_embd.weight": (512, WIDTH),
        "token_embd_norm.weight": (WIDTH,),
        "token_embd_norm.bias": (WIDTH,),
    }
    if ranks:
        writer.add_classifier_output_labels(["relevance"])
        shapes |= {"cls.weight": (WIDTH, WIDTH), "cls.bias": (WIDTH,), "cls.output.weight": (1, WIDTH), "cls.output.bias": (1,)}
    for at in range(LAYERS):
        block = f"blk.{at}"
        for name in ("attn_q", "attn_k", "attn_v", "attn_output"):
            shapes |= {f"{block}.{name}.weight": (WIDTH, WIDTH), f"{block}.{name}.bias": (WIDTH,)}
        for name in ("attn_output_norm", "layer_output_norm"):
            shapes |= {f"{block}.{name}.weight": (WIDTH,), f"{block}.{name}.bias": (WIDTH,)}
        shapes |= {
            f"{block}.ffn_up.weight": (HIDDEN, WIDTH),
            f"{block}.ffn_up.bias": (HIDDEN,),
            f"{block}.ffn_down.weight": (WIDTH, HIDDEN),
            f"{block}.ffn_down.bias": (WIDTH,),
        }
    random_tensors(writer, shapes)
    finish(writer)


def finish(writer: gguf.GGUFWriter) -> None:
    writer.write_header_to_file()
    writer.write_kv_data_to_file()
    writer.write_tensors_to_file()
    writer.close()


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("folder", type=Path, help="where the files are written")
    folder = parser.parse_args().folder
    folder.mkdir(parents=True, exist_ok=True)
    language_model(folder / "tiny-chat.gguf")
    encoder(folder / "tiny-embed.gguf", ranks=False)
    encoder(folder / "tiny-rerank.gguf", ranks=True)
    for path in sorted(folder.glob("tiny-*.gguf")):
        print(f"{path} ({path.stat().st_size // 1024} KiB)")


if __name__ == "__main__":
    main()
