/** `towline notify test` against a local target. */
import { once } from "node:events";
import { mkdtemp, rm, writeFile } from "node:fs/promises";
import { createServer } from "node:http";
import type { AddressInfo } from "node:net";
import { tmpdir } from "node:os";
import { join } from "node:path";
import { expect, onTestFinished, test } from "vitest";
import { stringify } from "yaml";
import { towline } from "../../support/command-line.ts";

async function aTarget(status: number) {
  const bodies: string[] = [];
  const server = createServer((request, response) => {
    const chunks: Buffer[] = [];
    request.on("data", (chunk: Buffer) => chunks.push(chunk));
    request.on("end", () => {
      bodies.push(Buffer.concat(chunks).toString("utf8"));
      response.writeHead(status).end();
    });
  });
  server.listen(0, "127.0.0.1");
  await once(server, "listening");
  onTestFinished(() => void server.close());
  const dir = await mkdtemp(join(tmpdir(), "notify-"));
  onTestFinished(() => rm(dir, { recursive: true }));
  const config = join(dir, "towline.yaml");
  const url = `http://127.0.0.1:${(server.address() as AddressInfo).port}/d4c3b2a1`;
  const body = { text: "{{title}}" };
  await writeFile(config, stringify({ notifications: { targets: [{ id: "team", kind: "webhook", url, body }] } }));
  const run = (...argv: string[]) => towline(["notify", "test", ...argv], { env: { TOWLINE_CONFIG: config } });
  return { bodies, run };
}

test("a target gets a sample of each message, or of one kind", async () => {
  const { bodies, run } = await aTarget(204);
  expect(await run("team")).toMatchObject({ code: 0, err: "" });
  expect(bodies).toHaveLength(10);
  expect(JSON.parse(bodies[0] ?? "")).toEqual({ text: "[sample] shop: deployed 3f2c1ab to 2 deployments" });
  const one = await run("team", "--only", "drift");
  expect(one).toEqual({ code: 0, err: "", out: "sent: [sample] shop: 1 deployment differs from git\n" });
  expect(await run("team", "--only", "drifts")).toMatchObject({ code: 2 });
});

test("a target that refuses is reported with what it answered, and without its address", async () => {
  const { bodies, run } = await aTarget(403);
  const { code, out } = await run("team");
  expect(code).toBe(1);
  expect(bodies).toHaveLength(1);
  expect(out).toMatch(
    /^not sent: \[sample\] shop: .+ 127\.0\.0\.1:\d+: the login or the address is rejected \(403\)\n$/,
  );
  expect(out).not.toContain("d4c3b2a1");
});

test("a target that does not exist is an error that names those that do", async () => {
  const { run } = await aTarget(204);
  expect(await run("tean")).toMatchObject({ code: 2, err: expect.stringContaining('did you mean "team"?') as string });
  expect(await run("chat")).toMatchObject({ code: 2, err: expect.stringContaining("configured are team") as string });
});
