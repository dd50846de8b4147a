import { mkdirSync, mkdtempSync, rmSync, writeFileSync } from "node:fs";
import { tmpdir } from "node:os";
import { dirname, join } from "node:path";
import { expect, onTestFinished, test } from "vitest";
import { checkHouse } from "../../../dev/house.ts";

test("the project itself has no violations", () => {
  expect(checkHouse(join(import.meta.dirname, "../../.."))).toEqual([]);
});

test.each([
  [
    "src/intake/match.ts",
    'import { createKubeClient } from "../kube/client.ts";',
    "(decisions) imports src/kube/client.ts (kube)",
  ],
  ["src/kube/watch.ts", 'import type { Git } from "../source/git.ts";', "(kube) imports src/source/git.ts (source)"],
  [
    "src/forge/gitea/event.ts",
    'export { x } from "../github/event.ts";',
    "(a forge) imports src/forge/github/event.ts (a forge)",
  ],
  ["routes/webhooks.ts", 'import { createQueue } from "../jobs/queue.ts";', "(routes) imports jobs/queue.ts (jobs)"],
  ["jobs/worker.ts", 'import {\n  a,\n  b,\n} from "../routes/admin.ts";', "(jobs) imports routes/admin.ts (routes)"],
  ["src/model.ts", 'const ports = await import("./ports.ts");', "(ground) imports src/ports.ts (ports)"],
  ["src/app.ts", 'import "../test/support/world.ts";', "(the top) imports test/support/world.ts (tests)"],
  ["src/reconcile/loop.ts", 'import { Queue } from "bullmq";', "(decisions) imports bullmq, which only jobs may"],
  [
    "jobs/queue.ts",
    'import { V1Lease } from "@kubernetes/client-node/types";',
    "imports @kubernetes/client-node/types, which only kube may",
  ],
  ["src/helpers.ts", "export const x = 1;", "belongs to no room, see dev/house.ts"],
  ["src/kluctl/run.ts", "spawn(command, { shell: true });", "runs a shell"],
])("%s must not contain %j", (file, text, complaint) => {
  expect(checkHouse(useSources({ [file]: text }))).toEqual([
    expect.stringMatching(escape(`${file}: `) + ".*" + escape(complaint)),
  ]);
});

test("imports that the table allows have no violations", () => {
  const root = useSources({
    "src/cli.ts": 'import { startApp } from "./app.ts";\nimport { createQueue } from "../jobs/queue.ts";',
    "src/forge/gitea/event.ts": 'import { hmac } from "../sign.ts";\nimport { readUser } from "./user.ts";',
    "src/reconcile/loop.ts":
      'import type { Logger } from "../log.ts";\nimport { setTimeout } from "node:timers/promises";',
    "jobs/worker.ts": 'import { Worker } from "bullmq";\nimport { match } from "../src/intake/match.ts";',
    "test/unit/x.test.ts": 'import { startApp } from "../../src/app.ts";',
  });
  expect(checkHouse(root)).toEqual([]);
});

test("two exported types must not share a name", () => {
  const [type, other] = ["export interface Change {\n  readonly at: string;\n}", "export type Change = string;"];
  const root = useSources({ "src/kube/watch.ts": type, "src/model/result.ts": other, "test/support/fakes.ts": other });
  expect(checkHouse(root)).toEqual([
    expect.stringMatching(/^src\/.*: exports the type Change, as src\/.* does; rename one of them$/),
  ]);
});

function useSources(files: Record<string, string>): string {
  const root = mkdtempSync(join(tmpdir(), "towline-house-"));
  onTestFinished(() => rmSync(root, { recursive: true }));
  for (const [file, text] of Object.entries(files)) {
    mkdirSync(dirname(join(root, file)), { recursive: true });
    writeFileSync(join(root, file), text);
  }
  return root;
}

function escape(text: string): string {
  return text.replaceAll(/[.()/]/g, "\\$&");
}
