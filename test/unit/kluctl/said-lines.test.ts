import { expect, test } from "vitest";
import { createLineForwarder, type SaidLine } from "../../../src/kluctl/said-lines.ts";
import type { CommandResult } from "../../../src/model.ts";

const deployment = { namespace: "shop", name: "prod" };
const password = "hunter2-hunter2";

function useForwarder(known: readonly string[] = []) {
  const lines: SaidLine[] = [];
  const options = { deployment, reconcileId: "one", command: "deploy", known };
  const forwarder = createLineForwarder({ ...options, onLine: (_, line) => void lines.push(line) });
  return { forwarder, lines, texts: () => lines.map(({ text }) => text) };
}

function aResult(contents: object | undefined): CommandResult {
  const rendered =
    contents && JSON.stringify({ apiVersion: "v1", kind: "Secret", metadata: { name: "s" }, ...contents });
  const ref = { version: "v1", kind: "Secret", name: "s", namespace: "shop" };
  const objects = [{ ref, changes: [], new: true, ...(rendered && { rendered }) }];
  return { document: {}, objects, errors: [], warnings: [], objectsHash: "" } as unknown as CommandResult;
}

test("progress is reported at once, with its job and command", async () => {
  const { forwarder, lines, texts } = useForwarder();
  forwarder.line("Failed to detect git project root. This might cause follow-up errors"); // kluctl prints this for every working copy
  forwarder.line("Rendering templates");
  forwarder.line("app: Applying 3 objects");
  expect(lines).toMatchObject([
    { job: "one", command: "deploy", text: "Rendering templates" },
    { job: "one", command: "deploy", text: "app: Applying 3 objects" },
  ]);
  await forwarder.end(aResult({}));
  expect(texts().at(-1)).toMatch(/^done after \d+\.\d s$/);
});

test("a line that may quote a Secret is held back until the secrets in the result are known", async () => {
  const { forwarder, texts } = useForwarder(["a-known-password"]);
  forwarder.line(`the Secret s is wrong: expected a number, got ${password}`);
  forwarder.line("and the login a-known-password, and ghp_0123456789abcdefghijklmnopqrstuvwxyzAB");
  forwarder.line("Rendering templates");
  expect(texts()).toEqual(["Rendering templates"]);
  await forwarder.end(aResult({ stringData: { password } }));
  const told = texts().join("\n");
  expect(told).toContain("the Secret s is wrong: expected a number, got *****");
  expect(told).not.toMatch(/hunter2|a-known-password|ghp_/);
});

test("lines that cannot be masked, and those beyond a limit, are not reported", async () => {
  const doubtful = useForwarder();
  doubtful.forwarder.line(`got ${password}`);
  await doubtful.forwarder.end(aResult(undefined));
  expect(doubtful.texts()).toMatchObject([expect.stringContaining("1 lines are in the server's log only"), {}]);

  const failed = useForwarder([password]);
  failed.forwarder.line(`template error: ${password}`);
  await failed.forwarder.end(undefined);
  expect(failed.texts()).toMatchObject(["template error: *****", expect.stringMatching(/^failed after/)]);

  const flood = useForwarder();
  for (let n = 0; n < 1_000; n++) flood.forwarder.line(`app-${n}: Applying ${n} objects`);
  await flood.forwarder.end(undefined);
  expect(flood.texts()).toHaveLength(301);
  expect(flood.texts().at(-2)).toContain("further lines");
});
