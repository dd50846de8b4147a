import { once } from "node:events";
import { mkdir, readFile, realpath, stat } from "node:fs/promises";
import { join } from "node:path";
import { setTimeout as delay } from "node:timers/promises";
import fc from "fast-check";
import { describe, expect, test, vi } from "vitest";
import { isRunning } from "../../support/fake-kluctl.ts";
import { uniqueName } from "../../support/world.ts";
import { ask, reach, type Renderers, type Started, useRenderers } from "../../support/renderers.ts";
import { patience } from "../../support/patience.ts";

/** The last line that kluctl sends to each of its renderers. */
const ending = `{"cmd":"exit","templates":null,"opts":null}\n`;
const two = `[{"result": "2"}]\n`;

/** Runs the same input cold and warm. */
async function both(renderers: Renderers, input: string, env: Record<string, string> = {}) {
  const [cold, warm] = await Promise.all([renderers.run("cold", input, env), renderers.run("warm", input, env)]);
  return { cold, warm };
}

/** Renders one template, and returns the result. */
async function render(renderers: Renderers, template: string): Promise<string> {
  const { stdout, stderr } = await renderers.run("warm", ask([template]));
  const [{ result, error }] = JSON.parse(stdout || `[{"error": ${JSON.stringify(stderr)}}]`) as [
    Record<string, string>,
  ];
  return result ?? `error: ${error}`;
}

/**
 * Starts a template that never ends, and resolves with the process ids of the renderer and of a child that it started.
 */
async function startEndless(renderers: Renderers): Promise<Started & { pids: [number, number] }> {
  const started = renderers.start("warm");
  const file = join(renderers.dir, uniqueName("pids"));
  const template = `${reach}
    {%- set child = module("subprocess").Popen(["sleep", "600"]) %}
    {%- set _ = module("pathlib").Path("${file}").write_text("%d %d" % (module("os").getpid(), child.pid)) %}
    {%- set _ = module("builtins").max(module("itertools").count()) %}`; // loops in C code, which ignores signals
  started.write(ask([template]));
  const pids = await vi.waitFor(async () => {
    const found = (await readFile(file, "utf8")).split(" ").map(Number);
    expect(found).toHaveLength(2);
    return found as [number, number];
  }, patience);
  return { ...started, pids };
}

const gone = (pids: readonly number[]) => vi.waitFor(() => expect(pids.filter(isRunning)).toEqual([]), patience);

describe("a warm renderer", () => {
  test("produces the same output as a cold one, byte for byte, for any template", async () => {
    const renderers = await useRenderers();
    const word = fc.constantFrom("a", "b", "missing", "list", "1", "'x'", "none", "{'k': [1, 2]}", "a.b.c", "ü");
    const filter = fc.constantFrom(
      "upper",
      "to_yaml",
      "to_json",
      "from_yaml",
      "sha256",
      "slugify",
      "b64encode",
      "nope",
      "sort",
    );
    const expression = fc.oneof(
      word,
      fc.tuple(word, filter).map(([value, name]) => `${value} | ${name}`),
      fc.tuple(word, word).map(([one, two]) => `${one} + ${two}`),
      word.map((name) => `get_var("${name.replaceAll('"', "")}", 7)`),
      word.map((name) => `images.get_image("${name.replaceAll('"', "")}")`),
    );
    const piece = fc.oneof(
      fc.string({ unit: "grapheme", maxLength: 12 }),
      expression.map((value) => `{{ ${value} }}`),
      expression.map((value) => `{% if ${value} %}yes{% else %}no{% endif %}`),
      expression.map(
        (value) =>
          `{% for one in ${value} %}{{ loop.index }}{{ one }}{% if one == 2 %}{% break %}{% endif %}{% endfor %}`,
      ),
      expression.map((value) => `{{ raise(${value}) }}`),
      fc.constantFrom("{{", "{% if %}", "{# note #}", "{% raw %}{{ a }}{% endraw %}", "{{ debug_print(a) }}"),
    );
    const templates = fc.array(
      fc.array(piece, { maxLength: 4 }).map((pieces) => pieces.join("")),
      { minLength: 1, maxLength: 25 },
    );
    const globals = { a: "A", b: { c: 1 }, list: [3, 1, 2] };
    await fc.assert(
      fc.asyncProperty(templates, async (some) => {
        const { cold, warm } = await both(renderers, ask(some, globals));
        expect(warm).toEqual(cold);
        expect(warm.status).toBe(0);
      }),
      { numRuns: 15 },
    );
    expect(renderers.refusals).toEqual([]);
  });

  test("exits, fails and recurses like a cold one", async () => {
    const renderers = await useRenderers();
    const depth = "{% macro down(n) %}{{ n }} {{ down(n + 1) }}{% endmacro %}{{ down(0) }}";
    const inputs = [
      "",
      "no json\n",
      `{"cmd": "unknown", "opts": {}, "templates": []}\n`,
      `{"cmd": "exit", "opts": {}}\n`,
      ask([`${reach}{{ module("sys").exit(3) }}`]),
      ask([`${reach}{{ module("sys").exit("so long") }}`]),
      ask([depth]),
    ];
    for (const input of inputs) {
      const { cold, warm } = await both(renderers, input);
      expect(warm).toEqual(cold);
    }
  });

  test("only starts Python when there is work", async () => {
    const renderers = await useRenderers();
    const job = ask(["{{ 1 + 1 }}"]);
    const starts = { PYTHONVERBOSE: "1" }; // makes Python write to stderr at its start; with it the renderer starts cold
    const isStarted = async (...pieces: string[]) => {
      const started = renderers.start("warm", { env: starts, piped: true });
      for (const piece of pieces) {
        await delay(50);
        started.write(piece);
      }
      const { stderr, ...ended } = await started.end();
      return { ...ended, started: stderr !== "" };
    };
    const inputs: [string[], string, boolean][] = [
      [[], "", false],
      [[ending], "", false],
      [[`${ending}${job}`], "", true],
      [[job, ending], two, true],
      [[job.slice(0, 20), job.slice(20)], two, true],
    ];
    for (const [input, stdout, started] of inputs)
      expect(await isStarted(...input), JSON.stringify(input)).toEqual({ stdout, status: 0, started });
  });

  test("produces the same output through a pipe", async () => {
    const renderers = await useRenderers();
    const job = ask(["{{ 1 + 1 }}"]);
    for (const input of ["", ending, `${job}${job}${ending}`, `${ending}${job}`, job.trimEnd(), "no json\n"]) {
      const ended = (["cold", "warm"] as const).map((how) => {
        const started = renderers.start(how, { piped: true });
        started.write(input);
        return started.end();
      });
      const [cold, warm] = await Promise.all(ended);
      expect(warm, input).toEqual(cold);
    }
    expect(renderers.refusals).toEqual([]);
  });

  test("has the environment, directory, arguments and limits set by kluctl, and nothing of the server's", async () => {
    const renderers = await useRenderers();
    await mkdir(join(renderers.dir, "there"));
    const template = `${reach}{% set os, sys = module("os"), module("sys") %}{{ [os.environ | dictsort, os.getcwd(), sys.argv,
      sys.path, sys.flags | string, sys.stdin.encoding, sys.stdin.errors, sys.stdout.line_buffering, os.umask(18), os.listdir("/proc/self/fd") | length > 3,
      module("signal").getsignal(17) | string, module("__main__").__file__] | to_json }}`;
    const started = (["cold", "warm"] as const).map((how) => {
      const one = renderers.start(how, { cwd: join(renderers.dir, "there"), env: { TOKEN: "a=b\nc", EMPTY: "" } });
      one.write(ask([template]));
      return one.end();
    });
    const [cold, warm] = await Promise.all(started);

    // The umask differs because it runs as kluctl does below the watchdog: no other user reads what it writes.
    expect(warm?.stdout.replace(", 63,", ", 18,")).toBe(cold?.stdout);
    expect(warm?.stdout).toContain(await realpath(join(renderers.dir, "there")));
    expect(warm?.stdout).toContain("TOKEN");
  });

  test("sees nothing of previous or concurrent renderers", async () => {
    const renderers = await useRenderers();
    const look = `${reach}{{ module("jinja2").mark is defined }} {{ "Ab" | upper }} {{ module("os").environ.mark is defined }}`;
    const spoil = `${reach}
      {%- set _ = module("jinja2").__dict__.update(mark=1) %}
      {%- set _ = module("jinja2.filters").filters.FILTERS.update(upper=module("builtins").len) %}
      {%- set _ = module("os").environ.update(mark="1") %}
      {{- module("jinja2").mark }}`;
    const beside = renderers.start("warm");
    beside.write(ask(["ready"]));
    await once(beside.process.stdout!, "data");

    expect(await render(renderers, spoil)).toBe("1");
    expect(await render(renderers, look)).toBe("False AB False");
    beside.write(ask([look]));
    expect((await beside.end()).stdout).toContain("False AB False");
  });

  test("draws its own random numbers", async () => {
    const renderers = await useRenderers();
    const draw = `{{ range(1000000) | random }} ${reach}{{ module("uuid").uuid4() }} {{ module("tempfile").mktemp() }}`;
    const drawn = await Promise.all(Array.from({ length: 4 }, () => render(renderers, draw)));
    expect(new Set(drawn).size).toBe(4);
  });

  test.each([true, false])(
    "ends with its stand-in, together with the processes it started (light: %s)",
    async (light) => {
      const renderers = await useRenderers({}, light);
      for (const signal of ["SIGKILL", "SIGTERM"] as const) {
        const { process, pids } = await startEndless(renderers);
        expect(pids.every(isRunning)).toBe(true);
        process.kill(signal);
        await gone(pids);
      }
      expect(await render(renderers, "{{ 1 + 1 }}")).toBe("2");
    },
  );

  test("that ends leaves no process of its templates running", async () => {
    const renderers = await useRenderers();
    const child = await render(renderers, `${reach}{{ module("subprocess").Popen(["sleep", "600"]).pid }}`);
    await gone([Number(child)]);
  });

  test("that uses too much memory fails without affecting others, like a cold one", async () => {
    const renderers = await useRenderers({ rendererBytes: 256 * 1024 ** 2 });
    const [big, small] = await Promise.all([
      renderers.run("warm", ask([`{{ ("x" * 300000000) | length }}`])),
      render(renderers, "{{ 1 + 1 }}"),
    ]);
    expect(big.stdout).toContain(`"error"`);
    expect(small).toBe("2");
  });

  test("that uses too much CPU time is killed", async () => {
    const renderers = await useRenderers({ rendererSeconds: 1 });
    const { pids, end } = await startEndless(renderers);
    expect(await end()).toMatchObject({ status: 137 });
    await gone(pids);
  });

  test("is not affected when the fork server is killed", async () => {
    const renderers = await useRenderers();
    const started = renderers.start("warm");
    started.write(ask(["one"]));
    await once(started.process.stdout!, "data");

    process.kill(renderers.forkServerPid, "SIGKILL");
    await vi.waitFor(() => expect(renderers.failures).toEqual(["the fork server ended with SIGKILL"]), patience);
    started.write(ask(["two"]));

    expect(await started.end()).toEqual({
      stdout: `[{"result": "one"}]\n[{"result": "two"}]\n`,
      stderr: "",
      status: 0,
    });
  });
});

describe("a renderer starts cold, with the same result,", () => {
  test("if the fork server has ended", async () => {
    const renderers = await useRenderers();
    const before = await renderers.run("warm", ask(["{{ 1 + 1 }}"]));
    await renderers.stop();

    expect(await renderers.run("warm", ask(["{{ 1 + 1 }}"]))).toEqual(before);
    expect(renderers.failures).toEqual([]);
  });

  test("if the fork server is frozen, and the fork server does no harm when it wakes", async () => {
    const renderers = await useRenderers();
    process.kill(renderers.forkServerPid, "SIGSTOP");
    const started = renderers.start("warm");
    started.write(ask(["{{ 1 + 1 }}"]));
    const ended = started.end();
    await once(started.process, "exit");
    process.kill(renderers.forkServerPid, "SIGCONT");

    expect(await ended).toMatchObject({ stdout: two, status: 0 });
    expect(await render(renderers, "{{ 1 + 1 }}")).toBe("2");
    expect(renderers.failures).toEqual([]);
  });

  test("if kluctl requests a different interpreter", async () => {
    const renderers = await useRenderers();
    const hash = ask([`${reach}{{ module("builtins").hash("a") }}`]);
    await renderers.run("warm", hash);
    const { cold, warm } = await both(renderers, hash, { PYTHONHASHSEED: "7" });

    expect(warm).toEqual(cold);
    expect(renderers.refusals).toEqual(["its environment asks for another interpreter"]);
  });

  test("if kluctl's libraries differ from the imported ones", async () => {
    const renderers = await useRenderers();
    await render(renderers, "1");
    await mkdir(join(renderers.dir, "other"));
    const path = ask([`${reach}{{ module("sys").path | length }}`]);
    const libraries = (await renderers.run("cold", ask([`${reach}{{ module("os").environ.PYTHONPATH }}`]))).stdout;
    const PYTHONPATH = `${(JSON.parse(libraries) as [{ result: string }])[0].result}:${join(renderers.dir, "other")}`;
    const { cold, warm } = await both(renderers, path, { PYTHONPATH });

    expect(warm).toEqual(cold);
    expect(renderers.refusals).toEqual(["it is another renderer than the one that was imported"]);
  });
});

test("the fork server ends when its standard input is closed, and only its own user can access its socket", async () => {
  const renderers = await useRenderers();
  expect((await stat(renderers.dir)).mode & 0o077).toBe(0);
  await renderers.stop();
  expect(isRunning(renderers.forkServerPid)).toBe(false);
});
