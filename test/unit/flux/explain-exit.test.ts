import { expect, test } from "vitest";
import { explainExit, findRendering } from "../../../src/flux/rendering/explain-exit.ts";

const limits = { memoryBytes: 1024 ** 3 };

test("only the program's own lines name a Kustomization", () => {
  expect(findRendering("rendering flux-system/apps")).toBe("flux-system/apps");
  expect(findRendering("# Warning: rendering flux-system/apps")).toBeUndefined();
  expect(findRendering("rendering a/b <script>")).toBeUndefined();
});

test("what Go's runtime prints before it gives up becomes a reason", () => {
  const log = "rendering flux-system/apps\n# Warning: 'bases' is deprecated.\n";
  const trace = "\n\nruntime stack:\nruntime.throw({0x14e796b?, 0x7ffc4b880bb0?})\n";
  const explain = (stderr: string, exitCode = 2) => explainExit({ exitCode, stderr: `${log}${stderr}` }, limits);
  for (const words of ["runtime: cannot allocate memory", "runtime: out of memory", "out of memory (page summary)"])
    expect(explain(`fatal error: ${words}${trace}`)).toBe("towline-flux needs more than 1024 MiB of memory");
  expect(explain(`runtime: goroutine stack exceeds 67108864-byte limit\nfatal error: stack overflow${trace}`)).toBe(
    "towline-flux recurses too deeply",
  );
  expect(explain("bad request: EOF\n")).toBe("towline-flux failed (exit status 2): bad request: EOF");
  expect(explainExit({ exitCode: 1, stderr: "rendering a/b\n" }, limits)).toBe(
    "towline-flux failed (exit status 1): without a message",
  );
});
