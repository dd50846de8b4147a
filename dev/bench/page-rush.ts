/**
 * A page on which every deployment changes twice a second, faster than an API server of this size can report: the
 * events, the assets and the browser are real. Runs as a separate process and prints the port it listens on.
 */
import { createServer } from "node:http";
import type { AddressInfo } from "node:net";
import { join } from "node:path";
import express from "express";
import { createPageEvents } from "../../src/web/events.ts";
import type { PageDeployment } from "../../src/web/facts.ts";

const count = Number(process.argv[2]);
const assets = join(import.meta.dirname, "../../dist/ui");

const deployments = new Map(Array.from({ length: count }, (_, index) => toEntry(index)));
const keys = [...deployments.values()].map(({ namespace, name }) => ({ namespace, name }));
const events = createPageEvents({ describe: (wanted) => wanted.flatMap(({ name }) => deployments.get(name) ?? []) });

setInterval(() => {
  // The browser computes from it how late it drew the row.
  const drift = String(Date.now());
  for (const [name, one] of deployments) deployments.set(name, { ...one, drift });
  for (const key of keys) events.changed(key);
}, 500);

const app = express()
  .get("/api/deployments", (_req, res) => void res.json([...deployments.values()]))
  .get("/api/access", (_req, res) => void res.json({ by: "token" }))
  .get("/api/events", (_req, res) => void events.open(res, Infinity))
  .use(express.static(assets));
const server = createServer(app).listen(0, "127.0.0.1", () => {
  process.stdout.write(`${(server.address() as AddressInfo).port}\n`);
});

function toEntry(index: number): [string, PageDeployment] {
  const name = `app-${String(index).padStart(4, "0")}`;
  return [
    name,
    {
      namespace: "bench-page",
      name,
      ready: index % 10 === 0 ? "False" : "True",
      commit: "3f2c1ab".padEnd(40, "0"),
      deployedCommit: "3f2c1ab".padEnd(40, "0"),
      deployedAt: Date.now(),
      drift: "none",
      nextCheckAt: Date.now() + 300_000,
      why: index % 10 === 0 ? "services/frontend/deploy.yml:14: 'replicas' is undefined" : undefined,
      suspended: false,
      target: "prod",
      source: "https://git.example.com/example/shop",
      ref: "branch main",
      path: undefined,
    },
  ];
}
