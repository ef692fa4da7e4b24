# SPDX-FileCopyrightText: 2026 The shard8 authors
# SPDX-License-Identifier: Apache-2.0
"""scripts/validate: what of a row is taken otherwise than it stands there is refused or said."""

import json
import pathlib
import unittest

from test_validate import REPOSITORY, ROWS, table_of, validate, write
from validate import efficiencies, gpus, projection, report, results, rows, stacks

STACKS = stacks.read_all(REPOSITORY / "inputs" / "stacks")


def rows_of(changes, of="r02", name="noted.csv"):
    """A file with a row for each of the changes of one shown row, no anchors."""
    row = next(row for row in table_of() if row["id"] == of)
    return write(name, [row | {"id": f"x{i}", "anchor": "no"} | change for i, change in enumerate(changes)])


def projected(changes, *options, of="r02"):
    done = validate(rows_of(changes, of), "--json", *options)
    assert done.returncode == 0, done.stderr
    return json.loads(done.stdout)


class Recompute(unittest.TestCase):
    def test_case_does_not_matter(self):
        read = rows.read(rows_of([{"recompute": text} for text in ("None", "none", "FULL", "Selective", "-", "")]))
        self.assertEqual([row.recompute for row in read], ["none", "none", "full", "selective", "", ""])
        self.assertEqual(read[0].series, read[1].series)
        self.assertEqual(stacks.recompute(STACKS[-2], read[0], "x"), ("none", ""))

    def test_what_nobody_knows_is_refused(self):
        for text in ("banana", "full attention", "no"):
            done = validate(rows_of([{}, {"recompute": text}]))
            self.assertEqual((done.returncode, done.stdout), (2, ""))
            self.assertIn(f"noted.csv:3: row x1: column recompute = '{text}': expected none, selective, full, nothing",
                          done.stderr)

    def test_what_stands_for_a_text_is_said(self):
        found = {row.id: row for row in rows.read(ROWS)}

        def said(name):
            return stacks.recompute(stacks.find(STACKS, found[name], ROWS)[0], found[name], ROWS)

        self.assertEqual(said("r02"), ("selective", ""))
        self.assertEqual(said("r07"), ("selective", "recompute 'per-op selective': that of torchtitan-2025-06.yaml"))
        self.assertEqual(said("r40"), ("selective", "recompute is not given: that of paxml-v24.11.1.yaml"))
        self.assertEqual(said("r18"), ("none", "recompute is not given: none"))


class Precision(unittest.TestCase):
    def test_names_of_llm_foundry_and_of_dtypes(self):
        names = {"amp_bf16": "bf16", "amp_fp8": "fp8", "bfloat16": "bf16", "AMP_BF16": "bf16", "BF16": "BF16",
                 "fp8 delayed": "fp8 delayed"}
        found = rows.read(rows_of([{"precision": name} for name in names]))
        self.assertEqual([row.precision for row in found], list(names.values()))
        self.assertEqual([row.fp8 for row in found], [False, True, False, False, False, True])
        done = validate(rows_of([{"precision": "amp_fp16"}]))
        self.assertEqual(done.returncode, 2)
        self.assertIn("column precision = 'amp_fp16': expected bf16, bfloat16, or a name that begins", done.stderr)

    def recipe(self, precision, of="r03"):
        row = rows.read(rows_of([{"precision": precision}], of))[0]
        stack, _ = stacks.find(STACKS, row, ROWS)
        found, note = stacks.recipe(stack, row)
        self.assertEqual(stacks.deck(stack, row, ROWS)["fp8"]["recipe"], found)
        self.assertEqual(stacks.structure(stack, row)["deck_fp8"].get("fp8.recipe"), found)
        return found, note

    def test_a_recipe_that_is_named_is_the_decks(self):
        self.assertEqual(self.recipe("float8"), ("current", ""))
        self.assertEqual(self.recipe("Float8_Tensorwise"), ("current", ""))
        self.assertEqual(self.recipe("FP8 current scaling"), ("current", ""))
        self.assertEqual(self.recipe("FP8_delayed"),
                         ("delayed", "FP8_delayed: recipe delayed, where torchtitan-2024-12.yaml has current"))
        self.assertEqual([self.recipe(name)[0] for name in ("fp8-blockwise", "fp8_block", "fp8_mx", "fp8_mxfp8")],
                         ["block", "block", "mxfp8", "mxfp8"])
        self.assertEqual(self.recipe("FP8", "r15"), ("delayed", ""))
        self.assertIn("recipe current, where maxtext", self.recipe("FP8_current", "r15")[1])

    def test_what_stands_for_another_is_said(self):
        for name in ("float8_rowwise", "fp8_delayed_block"):
            self.assertEqual(self.recipe(name), ("current", f"{name} names no one recipe of shard8: current, that of "
                                                            "torchtitan-2024-12.yaml, stands for it"))

    def test_times_are_those_of_the_recipe(self):
        shipped = ("--machine", REPOSITORY / "inputs" / "machines" / "h100-sxm.yaml")
        plain, delayed, block, rowwise = projected(
            [{"precision": name} for name in ("float8", "FP8_delayed", "fp8_block", "float8_rowwise")], *shipped, of="r03")
        self.assertLess(delayed["projected_s"], plain["projected_s"])
        self.assertGreater(block["projected_s"], plain["projected_s"])
        self.assertEqual(rowwise["projected_s"], plain["projected_s"])


class Projections(unittest.TestCase):
    def test_warnings_are_short(self):
        text = ("row3.yaml:18:11: warning: fp8.margin = 1 has no effect\n   18 |   margin: 1\n"
                "shard8: warning: /a/row3.yaml: a rank needs 150386610688 bytes, and a device of h100-sxm has 85017493504: "
                "the deck does not fit; more ranks, a smaller data.micro_batch or model.recompute make it fit\n"
                "shard8: warning: /a/row3.yaml: something else\n")
        self.assertEqual(projection.warnings(text, "/a/row3.yaml"),
                         ["fp8.margin = 1 has no effect", "planned memory 150 GB of 85 GB of h100-sxm",
                          "the deck: something else"])

    def test_sizes_that_are_far_outside_are_said(self):
        def at(name, factor, seconds):
            return {"operation": name, "factor": factor, "s": seconds}

        self.assertEqual(projection.extrapolated([at("copy of 8 bytes", 4, 0.5), at("cast of 9 bytes", 32, 0.0001)], 1), [])
        self.assertEqual(projection.extrapolated(
            [at("cross_entropy_backward of 9 bytes", 4.56, 0.012), at("fprop (1, 2) a", 16, 0.002), at("fprop (1, 3) a", 8, 0.004)],
            1), ["outside of the machine file's sizes: cross_entropy_backward 4.56 times (1.2 % of the step), fprop 16 times "
                 "(0.6 % of the step)"])

    def test_both_are_in_the_output(self):
        changes = [{}, {"layers": "16", "tokens_per_s_per_gpu": ""}]
        found = projected(changes, of="r09")
        self.assertIn("planned memory 150 GB of 86 GB of toy", found[0]["notes"])
        self.assertEqual([note for note in found[1]["notes"] if "memory" in note or "outside" in note], [])
        kept = json.loads((REPOSITORY / "inputs" / "stacks" / "efficiencies.json").read_text())["pairs"]
        of_pair = [pair["efficiency"] for pair in kept if (pair["stack"], pair["precision"]) == ("MaxText/JAX", "bf16")]
        self.assertEqual([item["efficiency"] for item in found], of_pair * 2)
        self.assertIn("\n  x0: planned memory 150 GB of 86 GB of toy\n", validate(rows_of(changes, "r09")).stdout)
        found = projected([{}], of="r07")
        self.assertEqual([note[:50] for note in found[0]["notes"] if "outside" in note],
                         ["outside of the machine file's sizes: fprop 8 times"])

    def test_a_note_of_all_rows_names_none(self):
        def of(name, *notes):
            row = next(row for row in rows.read(ROWS) if row.id == name)
            return results.Result(row, 1, 1, 1, 1, 1, 1, 1, notes)

        self.assertEqual(list(report.notes_of([of("r10", "a", "b"), of("r11", "b"), of("r12", "b", "a")])),
                         ["r10, r12: a", "b"])


class Cards(unittest.TestCase):
    """A machine file and an efficiency serve rows of other cards."""
    H200 = REPOSITORY / "inputs" / "machines" / "h200-sxm.yaml"

    def test_slower_memory_is_that_of_the_machine_file_used(self):
        cards = [{"gpu": gpu} for gpu in ("H100-96G", "H100-80G", "H200-141G")]
        found = rows.read(rows_of(cards))
        self.assertEqual([gpus.slower(row, self.H200) for row in found], [2, 4800 / 3350, 1])
        self.assertEqual([gpus.slower(row, self.H200.with_name("h100-sxm.yaml")) for row in found],
                         [3350 / 2400, 1, 3350 / 4800])
        slow, middle, fast = projected(cards, "--machine", self.H200)
        self.assertGreater(slow["projected_s"], middle["projected_s"])
        self.assertGreater(middle["projected_s"], fast["projected_s"])
        self.assertIn("h200-sxm.yaml has 4.8 TB/s of memory, H100-80G 3.35: kernels' bytes count 1.43 times",
                      middle["notes"])
        self.assertFalse(any("TB/s" in note or "what-if" in note for note in fast["notes"]))

    def test_a_lower_power_limit_slows_products(self):
        found = rows.read(rows_of([{"gpu": gpu} for gpu in ("H100-96G", "H100-80G")]))
        path = self.H200.with_name("h100-sxm.yaml")
        self.assertEqual([gpus.power(row, path) for row in found], [500 / 700, 1])
        self.assertIn("h100-sxm.yaml is of 700 W, H100-96G of 500: what-if device.power=0.714x", gpus.notes(found[0], path))
        self.assertEqual(gpus.notes(found[1], path), [])
        # The anchor is of 500 W: its efficiency serves cards of 700 W, whose products are faster by the cube root.
        machine = pathlib.Path("500.yaml")
        text = path.read_text(encoding="utf-8")
        machine.write_text(text.replace("watts: 700", "watts: 500"), encoding="utf-8")
        limited, = projected([{"anchor": "no"}], "--machine", path)
        unlimited, = projected([{"anchor": "no"}], "--machine", machine)
        self.assertGreater(limited["projected_s"], 1.05 * unlimited["projected_s"])
        self.assertLess(limited["projected_s"], (700 / 500) ** (1 / 3) * unlimited["projected_s"])

    def test_a_machine_file_without_a_bandwidth(self):
        path = pathlib.Path("none.yaml")
        path.write_text("device:\n  name: x\n", encoding="utf-8")
        row = rows.read(rows_of([{}]))[0]
        self.assertEqual(gpus.slower(row, path), 1)
        self.assertEqual(gpus.power(row, path), 1)
        self.assertEqual(gpus.notes(row, path),
                         ["none.yaml gives no device.bandwidth: its kernels' times count for H100-96G",
                          "none.yaml gives no device.watts: its products' times count for H100-96G"])
        for text, found in (("3350", 3350), ("2.4e3 @sheet", 2400), ("fast", None)):
            path = pathlib.Path(f"{found}.yaml")
            path.write_text(f"device:\n  bandwidth: {text}\n", encoding="utf-8")
            self.assertEqual(gpus.bandwidth_of(path), found)

    def test_an_efficiency_of_another_card_is_said(self):
        same, other = projected([{}, {"gpu": "H100-80G"}])
        note = "the efficiency is of H100-96G (500 W), the row of H100-80G (700 W)"
        self.assertNotIn(note, same["notes"])
        self.assertIn(note, other["notes"])

    def test_files_of_efficiencies_have_the_card(self):
        row = rows.read(rows_of([{}]))[0]
        pair = efficiencies.Efficiency("torchtitan", "bf16", 0.8, 4e14, "r02, there", row.gpu)
        efficiencies.write("cards.json", [pair])
        self.assertEqual(efficiencies.read("cards.json"), [pair])
        self.assertEqual(efficiencies.of_card(row, pair), "")
        before = efficiencies.Efficiency("torchtitan", "bf16", 0.8, 4e14, "r02, there")  # written without it
        efficiencies.write("cards.json", [before])
        self.assertEqual(efficiencies.read("cards.json"), [before])
        self.assertEqual(efficiencies.of_card(row, before), "the efficiency of r02 is of a card that its file does not name")
        shipped = efficiencies.read(REPOSITORY / "inputs" / "stacks" / "efficiencies.json")
        self.assertEqual({pair.gpu for pair in shipped}, {"H100-80G", "H100-96G"})

    def test_a_pair_without_an_anchor(self):
        pair = efficiencies.Efficiency("PaxML/JAX", "fp8", 0.69, 4e14, "r40, there", "H100-80G")
        row = rows.read(rows_of([{"precision": "BF16"}], "r40"))[0]
        self.assertEqual(efficiencies.of(row, [pair]), (None, "PaxML/JAX has no anchor in BF16, only in fp8: efficiency 1"))
        self.assertEqual(efficiencies.of(row, []), (None, "PaxML/JAX has no anchor: efficiency 1"))


if __name__ == "__main__":
    unittest.main()
