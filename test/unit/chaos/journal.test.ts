import { once } from "node:events";
import { mkdtemp, rm } from "node:fs/promises";
import { connect } from "node:net";
import { tmpdir } from "node:os";
import { join } from "node:path";
import { expect, onTestFinished, test } from "vitest";
import { startJournal } from "../../../dev/chaos/journal.ts";

test("each run, also a delete, has the holder that the Lease has when the run starts", async () => {
  const dir = await mkdtemp(join(tmpdir(), "towline-journal-"));
  onTestFinished(() => rm(dir, { recursive: true, force: true }));
  let holder = "first";
  const journal = await startJournal({
    socket: join(dir, "socket"),
    replicaOf: () => "r1",
    deploymentOf: (discriminator) => discriminator,
    holderOf: (deployment) => Promise.resolve(`${holder} of ${deployment}`),
  });
  onTestFinished(() => journal.stop());

  /** Starts a run; resolves when it may continue. */
  async function begin(words: object) {
    const socket = connect(journal.socket);
    onTestFinished(() => void socket.destroy());
    socket.write(`${JSON.stringify({ event: "start", ...words })}\n`);
    await once(socket, "data");
    return socket;
  }

  const deploy = await begin({ id: "a", command: "deploy", deployment: "chaos/shop" });
  holder = "second";
  deploy.write(`${JSON.stringify({ event: "rendered", hash: "hash" })}\n`);
  await once(deploy, "data");
  await begin({ id: "b", command: "delete", discriminator: "site" });

  const runs = journal.runs().map((run) => ({ deployment: run.deployment, holder: run.holder, hash: run.hash }));
  expect(runs).toEqual([
    { deployment: "shop", holder: "first of shop", hash: "hash" },
    { deployment: "site", holder: "second of site", hash: undefined },
  ]);
});
