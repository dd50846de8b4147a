import { WriteStream } from "node:tty";
import { parse } from "yaml";
import { afterEach, expect, test, vi } from "vitest";
import { samples } from "../../../dev/comment-pictures/samples.ts";
import { formatReport } from "../../../src/cli/preview.ts";
import { hasColours } from "../../../src/cli/terminal.ts";
import type { Report } from "../../../src/model/report.ts";
import { towline } from "../../support/command-line.ts";

const report = samples["change"] as Report;

afterEach(() => vi.unstubAllEnvs());

test("a preview is text by default; the comment and data are on request", async () => {
  expect((await towline(["preview", "--help"])).out.replaceAll(/\s+/g, " ")).toContain(
    '(choices: "text", "markdown", "json", "yaml", default: "text")',
  );
  expect(formatReport(report, "text", { color: false })).toMatch(
    /^Merging changes 1 of 3 deployments: .*took 2\.1 s\n$/s,
  );
  expect(formatReport(report, "markdown", { color: true })).toMatch(
    /^\n*### Towline: merging changes 1 of 3 dep.*<\/sub>\n$/s,
  );
  expect(JSON.parse(formatReport(report, "json", { color: true }))).toEqual(JSON.parse(JSON.stringify(report)));
  expect(parse(formatReport(report, "yaml", { color: true }))).toEqual(JSON.parse(JSON.stringify(report)));
});

test("text has colours on a terminal only, unless the environment decides otherwise", () => {
  const withEnv = (env: Readonly<Record<string, string>>, isTTY: boolean) => {
    vi.unstubAllEnvs();
    for (const name of ["NO_COLOR", "FORCE_COLOR", "NODE_DISABLE_COLORS", "CI", "TEAMCITY_VERSION", "TMUX"])
      vi.stubEnv(name, env[name]);
    vi.stubEnv("TERM", "xterm-256color");
    const stdout = Object.assign(Object.create(process.stdout), {
      isTTY,
      getColorDepth: WriteStream.prototype.getColorDepth,
    });
    const terminal = vi.spyOn(process, "stdout", "get").mockReturnValue(stdout);
    const found = hasColours();
    terminal.mockRestore();
    return found;
  };

  expect(withEnv({}, false)).toBe(false);
  expect(withEnv({}, true)).toBe(true);
  expect(withEnv({ NO_COLOR: "1" }, true)).toBe(false);
  expect(withEnv({ FORCE_COLOR: "1" }, false)).toBe(true);
});
