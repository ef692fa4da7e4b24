# SPDX-FileCopyrightText: 2026 The shard8 authors
# SPDX-License-Identifier: Apache-2.0
"""Texts that shells, Slurm, HTML and JSON would read otherwise, in every place that takes a text."""
import json
import os
import shlex
import subprocess
import unittest
from html.parser import HTMLParser

from fake import Fake, write
from study.errors import StudyError
from study.quote import assignment, html, json_text, shell, slurm
from study.study_file import read_study

HURT = "$(touch hurt)`touch hurt`; touch hurt; \"'\\ & | > hurt * ~ <script>alert(1)</script> größe 🦊"
TEXTS = [HURT, "a b", "a\nb\n", "", "-n", "--", "%j %% %A", "'", '"', "\\", "]]>", "<!--", "&amp;", "x" * 4096, "é" * 2048]

PLACED = [HURT, "-n", "\\", "%j %% %A " + "é" * 2048]  # studies take no newlines and no empty texts


def outputs(words):
    return subprocess.run(words, capture_output=True, text=True, check=True).stdout


class Functions(unittest.TestCase):
    def test_a_shell_reads_the_words(self):
        for text in TEXTS:
            for shell_name in ("sh", "bash"):
                self.assertEqual(outputs([shell_name, "-c", "printf '%s\\0' " + shell(["a", text])]), f"a\0{text}\0")
                self.assertEqual(outputs([shell_name, "-c", f"export {assignment('NAME', text)}; printenv NAME"]), text + "\n")
        self.assertFalse(os.path.exists("hurt"))

    def test_names_of_variables(self):
        for name in ("a;touch hurt", "a b", "", "1a", "a-b", "a=b", "é", "a\nb", "$(touch hurt)"):
            with self.assertRaises(ValueError):
                assignment(name, "1")

    def test_html_shows_the_text(self):
        for text in TEXTS:
            seen = []
            parser = HTMLParser()
            parser.handle_data = seen.append
            parser.handle_starttag = lambda tag, attributes: self.assertEqual((tag, attributes), ("p", [("title", text)]))
            parser.feed(f'<p title="{html(text)}">{html(text)}</p>')
            parser.close()
            self.assertEqual("".join(seen), text)
        html("\ud800 \0 \x1b").encode("utf-8")
        self.assertNotIn("\0", html("\0"))

    def test_json(self):
        for text in TEXTS:
            self.assertEqual(json.loads(json_text({text: [text]})), {text: [text]})
        self.assertEqual(json_text([float("nan"), float("inf"), (1.5, {"a": float("-inf")})]), '[null, null, [1.5, {"a": null}]]')

    def test_slurm(self):
        self.assertEqual(slurm("/a %j/50%"), "/a %%j/50%%")
        for path in ("a\\b", "a\nb"):
            with self.assertRaises(ValueError):
                slurm(path)


class Studies(unittest.TestCase):
    def study(self, name, environment, value, folder="out"):
        fake = Fake(name)
        fake.study(json.dumps({"deck": "deck.yaml", "folder": folder, "environment": environment, "set": {"data.path": value},
                               "sweep": {"ranks": 2, "env.SWEPT": [value, "2"]}}, ensure_ascii=False))
        return fake

    def test_names_that_a_shell_would_run_are_refused(self):
        for place in ("environment: {'A;touch hurt': 1}\nsweep: {ranks: 1}", "sweep: {ranks: 1, 'env.A;touch hurt': 1}"):
            write("deck.yaml", "model: {}\n")
            write("bad.yaml", f"deck: deck.yaml\n{place}\n")
            with self.assertRaises(StudyError) as caught:
                read_study("bad.yaml")
            self.assertIn("A;touch hurt", str(caught.exception))

    def test_half_a_character_is_refused(self):
        write("deck.yaml", "model: {}\n")
        write("bad.yaml", 'deck: deck.yaml\nset: {data.path: "\\ud83e"}\nsweep: {ranks: 1}\n')
        with self.assertRaises(StudyError) as caught:
            read_study("bad.yaml")
        self.assertIn("has half a character in it", str(caught.exception))

    def test_every_place_keeps_the_text(self):
        for number, text in enumerate(PLACED):
            fake = self.study(f"place_{number}", {"SET": text}, text)
            fake.keep_environment()
            code, out, error = fake.run("--dry-run")
            self.assertEqual(code, 0, error)
            words = shlex.split(out.splitlines()[0])
            self.assertIn(f"SET={text}", words)
            self.assertIn(f"SWEPT={text}", words)
            self.assertIn(f"data.path={text}", words)
            code, _, error = fake.run()
            self.assertEqual(code, 0, error)
            with open(fake.path("kept.json"), encoding="utf-8") as file:
                kept = json.loads(file.readline())
            self.assertEqual((kept["SET"], kept["SWEPT"], kept["data.path"]), (text, text, text))
            self.assertEqual(fake.run()[2].count("2 done, 0 to run"), 1)
            for folder, _, names in os.walk(fake.folder):
                self.assertNotIn("hurt", names, folder)

    def test_jobs_of_slurm(self):
        """What sbatch gets, and what array.sbatch then runs: sbatch is a script that keeps its words."""
        for number, text in enumerate(PLACED):
            fake = self.study(f"slurm_{number}", {"SET": text}, text, "out of; $(touch hurt) %j")
            fake.keep_environment()
            write(fake.path("sbatch"), '#!/bin/sh\nprintf "%s\\0" "$@" >sbatch.words\necho 7\n', 0o700)
            path = {"PATH": f"{fake.folder}:{os.environ['PATH']}"}
            code, _, error = fake.run("--slurm", **path)
            self.assertEqual(code, 75, error)
            with open(fake.path("sbatch.words"), encoding="utf-8") as file:
                words = file.read().split("\0")[:-1]
            self.assertIn(f"--output={fake.folder}/out of; $(touch hurt) %%j/slurm-%A_%a.log", words)
            with open(words[-1], encoding="utf-8") as file:
                folders = file.read().splitlines()
            said = outputs(["bash", "-c", 'cd "$2" && source "$1/job.bash" && printf "%s\\0" "$SET" "$SWEPT" "$@"', "-",
                            os.path.join(fake.folder, folders[0]), fake.folder]).split("\0")
            self.assertEqual(said[:2], [text, text])
            self.assertIn(f"data.path={text}", said)
            for folder, _, names in os.walk(fake.folder):
                self.assertNotIn("hurt", names, folder)

    def test_a_folder_that_slurm_cannot_write_to(self):
        fake = self.study("backslash", {}, "1", "a\\b")
        code, _, error = fake.run("--slurm", "--dry-run")
        self.assertEqual(code, 3)
        self.assertIn("it has a backslash or a newline in it; set 'folder' in the study to another one", error)


if __name__ == "__main__":
    unittest.main()
