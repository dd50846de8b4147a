/** A cluster for one test file that records every request: an API server with its audit log. */
import { mkdtemp, readFile, rm, writeFile } from "node:fs/promises";
import { tmpdir } from "node:os";
import { join } from "node:path";
import { stringify } from "yaml";
import { apiServerTools, startApiServer } from "../../dev/parts/control-plane.ts";
import { findTools } from "../../dev/tools.ts";

export interface AuditEvent {
  readonly verb: string;
  readonly requestURI: string;
  readonly user: { readonly username: string };
  readonly impersonatedUser?: { readonly username: string };
  readonly requestObject?: unknown;
  readonly responseStatus?: { readonly code: number };
}

export interface AuditedCluster {
  /** Path of an administrator's kubeconfig. */
  readonly kubeconfig: string;
  /** The requests to the API server so far. */
  audit(): Promise<AuditEvent[]>;
  stop(): Promise<void>;
}

export async function startAuditedCluster(): Promise<AuditedCluster> {
  const stateDir = await mkdtemp(join(tmpdir(), "towline-test-"));
  const [policy, log] = [join(stateDir, "policy.yaml"), join(stateDir, "audit.log")];
  const rules = [{ level: "Request", omitStages: ["RequestReceived"] }];
  await writeFile(policy, stringify({ apiVersion: "audit.k8s.io/v1", kind: "Policy", rules }));
  const tools = await findTools(apiServerTools, { say: () => undefined });
  const args = [`--audit-policy-file=${policy}`, `--audit-log-path=${log}`, "--audit-log-mode=blocking"];
  const { kubeconfig, stop } = await startApiServer({ tools, stateDir, args });
  return {
    kubeconfig,
    async audit() {
      const lines = (await readFile(log, "utf8")).split("\n").filter(Boolean);
      return lines.map((line) => JSON.parse(line) as AuditEvent);
    },
    async stop() {
      await stop();
      await rm(stateDir, { recursive: true, force: true, maxRetries: 5 });
    },
  };
}
