# SPDX-FileCopyrightText: 2026 The shard8 authors
# SPDX-License-Identifier: Apache-2.0
"""How a study is read and expanded: products, names, and the place and remedy of every error."""
import glob
import os
import unittest

from study.errors import StudyError
from study.expand import expand
from study.study_file import read_study
from fake import write


def read(text):
    write("deck.yaml", "model: {}\n")
    write("s.yaml", text)
    return read_study("s.yaml")


def error_of(text):
    try:
        read(text)
    except StudyError as error:
        return str(error)
    return "no error"


class Expansion(unittest.TestCase):
    def test_a_product_has_every_combination_in_order(self):
        runs = expand(read("deck: deck.yaml\nsweep: {ranks: [1, 2], mesh.tensor: [1, 2], env.OMP_NUM_THREADS: 3}\n"))
        self.assertEqual([r.name for r in runs],
                         ["ranks-1_tensor-1", "ranks-1_tensor-2", "ranks-2_tensor-1", "ranks-2_tensor-2"])
        self.assertEqual(runs[1].overrides, ("mesh.tensor=2",))
        self.assertEqual((runs[1].ranks, runs[1].environment), (1, (("OMP_NUM_THREADS", "3"),)))

    def test_products_are_joined_and_no_point_comes_twice(self):
        runs = expand(read("deck: deck.yaml\nsweep:\n  - {ranks: [1, 2], mesh.tensor: 1}\n"
                           "  - {mesh.tensor: [1, 2], ranks: 2}\n"))
        self.assertEqual([r.name for r in runs], ["ranks-1_tensor-1", "ranks-2_tensor-1", "tensor-2_ranks-2"])

    def test_repeats_come_in_rounds(self):
        runs = expand(read("deck: deck.yaml\nrepeats: 2\nsweep: {ranks: [1, 2]}\n"))
        self.assertEqual([r.name for r in runs], ["ranks-1_r1", "ranks-2_r1", "ranks-1_r2", "ranks-2_r2"])

    def test_values_keep_their_text(self):
        runs = expand(read("deck: deck.yaml\nset: {run.steps: 010}\nsweep: {optimizer.lr: [1e-3, 1.0d-4], x.y: [on, a=b]}\n"))
        self.assertEqual(runs[0].overrides, ("run.steps=010", "optimizer.lr=1e-3", "x.y=on"))
        self.assertEqual(runs[3].overrides[2], "x.y=a=b")

    def test_names_are_folders_and_differ(self):
        runs = expand(read("deck: deck.yaml\nsweep: {data.path: ['a/b', 'a:b', 'a b', '" + "x" * 300 + "']}\n"))
        names = [r.name for r in runs]
        self.assertEqual(len(set(names)), 4)
        for name in names:
            self.assertRegex(name, r"^[A-Za-z0-9._+-]{1,140}$")

    def test_names_of_points_that_would_be_the_same_differ(self):
        runs = expand(read("deck: deck.yaml\nsweep:\n  - {a.x: [1, 2], a.y: 3}\n  - {a.x: 1_y-3}\n"))
        self.assertEqual(len({r.name for r in runs}), 3)
        self.assertRegex(runs[0].name, r"^x-1_y-3_[0-9a-f]{8}$")
        self.assertEqual(runs[1].name, "x-2_y-3")

    def test_keys_that_end_alike_are_named_whole(self):
        runs = expand(read("deck: deck.yaml\nsweep: {data.seed: [1, 2], run.seed: [1, 2]}\n"))
        self.assertEqual(runs[0].name, "data.seed-1_run.seed-1")

    def test_the_studies_of_the_project_are_good(self):
        for path in glob.glob(os.path.join(os.environ["SHARD8_SOURCES"], "inputs", "studies", "*.yaml")):
            self.assertGreater(len(expand(read_study(path))), 3, path)


class Errors(unittest.TestCase):
    def test_place_value_and_remedy(self):
        self.assertEqual(error_of("deck: deck.yaml\nsweeps: {ranks: 1}\nsweep: {ranks: 1}\n"),
                         "s.yaml:2:1: error: unknown key 'sweeps' in the study\n"
                         "    2 | sweeps: {ranks: 1}\n      | ^~~~~~  did you mean 'sweep'?")

    def test_all_at_once(self):
        text = error_of("deck: no.yaml\nrepeats: 0\nscaling: strung\nset: {output.dir: a, ranks: 2}\n"
                        "sweep: {ranks: [0, 2, 2], tensor: 1, mesh.shard: []}\n")
        for part in ("s.yaml:1:1: error: deck: 'no.yaml' is no file", "2:10: error: repeats = 0 is not an integer >= 1",
                     "3:10: error: unknown scaling 'strung'", "did you mean 'strong'?",
                     "4:7: error: 'output.dir' is set by the study itself", "'ranks' is swept, not set",
                     "ranks = 0 is not an integer >= 1", "ranks = 2 stands twice", "unknown key 'tensor'",
                     "mesh.shard has an empty list"):
            self.assertIn(part, text)

    def test_one_value_in_two_spellings(self):
        for values, message in (("[1e-3, 0.001]", "a.b = 0.001 stands twice  1e-3 is the same value"),
                                ("[1.0d-3, 1e-3]", "a.b = 1e-3 stands twice  1.0d-3"), ("[010, 1e1]", "a.b = 1e1 stands twice"),
                                ("['true', .TRUE.]", "a.b = .TRUE. stands twice")):
            text = error_of(f"deck: deck.yaml\nsweep: {{a.b: {values}}}\n")
            self.assertIn(message.split("  ")[0], text)
            self.assertIn(message.split("  ")[-1].split(" is ")[0], text)
        self.assertEqual(len(expand(read("deck: deck.yaml\nsweep: {a.b: [1e-3, 1e-4, x, '1e', 'true'], env.A: ['1', '1.0']}\n"))), 10)
        runs = expand(read("deck: deck.yaml\nsweep:\n  - {a.b: [1e-3, 10]}\n  - {a.b: [0.001, 2, 1e1]}\n"))
        self.assertEqual([run.overrides for run in runs], [("a.b=1e-3",), ("a.b=10",), ("a.b=2",)])

    def test_a_study_does_not_replace_its_own_file_or_deck(self):
        os.makedirs("own", exist_ok=True)
        write("own/points.csv", "model: {}\n")
        self.assertIn("s.yaml:2:1: error: the study would replace 'own/points.csv' by its own points.csv",
                      error_of("deck: own/points.csv\nfolder: own\nsweep: {ranks: 1}\n"))
        write("own/study.json", "deck: deck.yaml\nfolder: own\nsweep: {ranks: 1}\n")
        with self.assertRaises(StudyError) as caught:
            read_study("own/study.json")
        self.assertIn("the study would replace 'own/study.json' by its own study.json", str(caught.exception))

    def test_an_empty_sweep(self):
        for text, place, message in (("[]", "2:8", "sweep has an empty list"), ("{}", "2:8", "sweep has no key"),
                                     ("[{}]", "2:9", "sweep has no key"), ("[{ranks: 1}, {}]", "2:21", "sweep has no key")):
            error = error_of(f"deck: deck.yaml\nsweep: {text}\n")
            self.assertIn(f"s.yaml:{place}: error: {message}\n", error)
            self.assertIn("name a key and its values: {ranks: [1, 2]}", error)

    def test_what_is_missing_or_contradicts_itself(self):
        self.assertIn("'deck' is missing", error_of("sweep: {ranks: 1}\n"))
        self.assertIn("'sweep' is missing", error_of("deck: deck.yaml\n"))
        self.assertIn("scaling: weak needs 'ranks' in the sweep", error_of("deck: deck.yaml\nscaling: weak\nsweep: {a.b: 1}\n"))
        self.assertIn("'a.b' is set and swept", error_of("deck: deck.yaml\nset: {a.b: 1}\nsweep: {a.b: 1}\n"))
        self.assertIn("'env.A' is swept, and its variable is in environment",
                      error_of("deck: deck.yaml\nenvironment: {A: 1}\nsweep: {env.A: [1, 2]}\n"))
        self.assertIn("'ranks' stands twice in sweep", error_of("deck: deck.yaml\nsweep: {ranks: 1, ranks: 2}\n"))

    def test_what_is_no_study(self):
        self.assertIn("cannot read the study: No such file", str(self.raised("nothere.yaml")))
        for text, part in (("", "the study is empty"), ("- a\n", "the study is no mapping"), ("a: [\n", "this is no YAML")):
            self.assertIn(part, error_of(text))

    def raised(self, path):
        with self.assertRaises(StudyError) as caught:
            read_study(path)
        return caught.exception

    def test_too_many_runs(self):
        values = ", ".join(map(str, range(200)))
        with self.assertRaises(StudyError) as caught:
            expand(read(f"deck: deck.yaml\nsweep: {{a.b: [{values}], a.c: [{values}]}}\n"))
        self.assertIn("40000 points x 1 repeats are too many: at most 10000", str(caught.exception))
