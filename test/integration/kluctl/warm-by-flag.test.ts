/** kluctl since 2.25, which takes `python3` from PATH, replaced by a script that starts Python the same way. */
import { readFile, writeFile } from "node:fs/promises";
import { dirname, join } from "node:path";
import { expect, onTestFinished, test, vi } from "vitest";
import {
  collectLogs,
  createFakeKluctl,
  gitLogins,
  newKluctl,
  newRun,
  noDiffOptions,
} from "../../support/fake-kluctl.ts";
import { ask, reach, useKluctlPython } from "../../support/renderers.ts";
import { useTempDir } from "../../support/world.ts";
import { patience } from "../../support/patience.ts";

const signal = new AbortController().signal;

async function useFakeKluctl(version: string) {
  const [python, dir] = await Promise.all([useKluctlPython(), useTempDir()]);
  const [extension = "", libraries = ""] = python.libraries.split(":");
  const binary = await createFakeKluctl(
    dir,
    `cache=$KLUCTL_CACHE_DIR/go-embed-jinja2
if [ ! -d $cache/python-1 ]; then
  cp -r ${python.home} $cache/python-1
  cp -r ${dirname(python.main)} $cache/source-1
  cp -r ${libraries} $cache/libraries-1
  cp -r ${extension} $cache/extension-1
fi
export PYTHONPATH=$cache/extension-1:$cache/libraries-1
case " $* " in
  *" --use-system-python "*) python=python3 ;;
  *) python=$cache/python-1/bin/python3; touch $cache/python-1.lock ;;
esac
$python -c "import platform; print(platform.python_version())" > $here/version
for n in 1 2 3 4; do $python $cache/source-1/main.py < $here/request > $here/answer-$n & done
wait
PYTHONPATH= python3 -c "import sys; print(sys.executable)" > $here/other
echo "errors: []" > $out`,
    version,
  );
  const { log, lines } = collectLogs();
  const starts: string[] = [];
  const observe = { ran: () => undefined, rendererStarted: (start: string) => void starts.push(start) };
  const kluctl = newKluctl(dir, { binary, log, warm: true, observe });
  onTestFinished(() => kluctl.stop());
  const read = (name: string) => readFile(join(dir, name), "utf8");
  return {
    lines,
    starts,
    /** The answers of four renderers, the version that Python reports, and the path of `python3` for other programs. */
    async diff(request: string, run: Partial<Parameters<typeof newRun>[0]> = {}) {
      await writeFile(join(dir, "request"), request);
      await kluctl.diff(newRun({ projectDir: dir, ...run }), noDiffOptions, signal);
      const answers = await Promise.all([1, 2, 3, 4].map((n) => read(`answer-${n}`)));
      return { answers, version: await read("version"), other: await read("other") };
    },
    messages: () => lines.map(({ msg }) => msg),
  };
}

test("kluctl since 2.25 takes the stand-in from PATH, and only its renderers use it", async () => {
  const { diff, starts, messages } = await useFakeKluctl("2.28.2");
  const request = ask(["{{ 6 * 7 }} {{ 'x y' | slugify }}", "{{ missing }}"]);
  const command = ask([`${reach}{{ module("pathlib").Path("/proc/self/cmdline").read_text() }}`]);

  const before = await diff(request);
  await vi.waitFor(() => expect(messages()).toContain("kluctl's renderers are kept warm"), patience);
  const warm = await diff(request);
  const forked = await diff(command);
  const namespaced = await diff(command, {
    credentials: gitLogins({ host: "git.example.com", secretName: "login", username: "x", password: "yyyyyyyy" }),
  });
  const cold = await diff(command, { cold: true });

  expect(before.answers[0]).toContain("42 x-y");
  expect(warm).toEqual(before);
  // The namespace's own cache has the same libraries at another path.
  for (const { answers } of [forked, namespaced])
    expect(answers.every((one) => one.includes("fork-server.py"))).toBe(true);
  expect(cold.answers.some((one) => one.includes("fork-server.py"))).toBe(false);
  expect(starts).toEqual(["cold", "warm", "warm", "warm", "cold"]);
});

test("a kluctl that only uses its own Python works as before, and the log says once why", async () => {
  const { diff, starts, lines } = await useFakeKluctl("2.24.1");
  const request = ask(["{{ 6 * 7 }}"]);

  await diff(request);
  await vi.waitFor(
    () => expect(lines).toContainEqual(expect.objectContaining({ error: "kluctl 2.24.1 only uses its own Python" })),
    patience,
  );
  await diff(request);
  const { answers } = await diff(request);

  expect(answers).toEqual(Array(4).fill(`[{"result": "42"}]\n`));
  expect(starts).toEqual(["cold", "fallback", "fallback"]);
  expect(lines.filter(({ level }) => level >= 40)).toHaveLength(1);
});
