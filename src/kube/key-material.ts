/**
 * The Secret and the ConfigMap by which kluctl's command line finds the source-override service. Names and keys are
 * those of kluctl's own controller, so that each controller can use what the other created.
 */
import { z } from "zod";
import { ApiError } from "../errors.ts";
import type { Logger } from "../log.ts";
import type { KeyMaterial } from "../model.ts";
import type { KubeClient } from "./client.ts";

export interface KeyMaterialDeps {
  readonly client: Pick<KubeClient, "request">;
  /** The controller's namespace. */
  readonly namespace: string;
  readonly fieldManager: string;
  readonly make: () => KeyMaterial;
  /** Returns why the material cannot be used, or `undefined`. */
  readonly problemOf: (material: KeyMaterial) => string | undefined;
  readonly log: Logger;
}

const secretName = "kluctl-source-override-secret";
const configMapName = "kluctl-source-override-ca";

const Secret = z.object({
  metadata: z.object({ resourceVersion: z.string() }),
  data: z.record(z.string(), z.string()).nullish(),
});
const ConfigMap = z.object({ data: z.record(z.string(), z.string()).nullish() });

/** Reads the existing material, creates what is missing, and replaces what cannot be used. Throws ApiError. */
export async function loadKeyMaterial(deps: KeyMaterialDeps): Promise<KeyMaterial> {
  const { client, namespace, fieldManager, make, problemOf, log } = deps;
  const core = `/api/v1/namespaces/${encodeURIComponent(namespace)}`;
  const [secrets, configMaps] = [`${core}/secrets`, `${core}/configmaps`];
  const query = { fieldManager };

  const read = (path: string) => unless(404, () => client.request({ method: "GET", path }));

  /** If several servers find no usable Secret, one of them writes it and the others read it. */
  async function ownSecret(): Promise<KeyMaterial> {
    for (let tries = 0; tries < 5; tries++) {
      const found = await read(`${secrets}/${secretName}`);
      const { metadata, data } = found === undefined ? {} : Secret.parse(found);
      const material = data ? toMaterial(data) : undefined;
      const problem = material ? problemOf(material) : "some of its keys are missing";
      if (material !== undefined && problem === undefined) return material;
      const made = make();
      const body = secretOf(made, namespace, metadata?.resourceVersion);
      if (found !== undefined) log.warn({ namespace, secret: secretName, problem }, "Secret replaced");
      const path = found === undefined ? secrets : `${secrets}/${secretName}`;
      const method = found === undefined ? "POST" : "PUT";
      if ((await unless(409, () => client.request({ method, path, query, body }))) !== undefined) return made;
    }
    throw new Error(`the Secret ${namespace}/${secretName} keeps changing`);
  }

  /** A command line that trusts another authority would wait forever. */
  async function publish(ca: string): Promise<void> {
    const found = await read(`${configMaps}/${configMapName}`);
    const data = { "ca.pem": ca };
    if (found === undefined) {
      const body = { apiVersion: "v1", kind: "ConfigMap", metadata: { name: configMapName, namespace }, data };
      const written = await unless(409, () => client.request({ method: "POST", path: configMaps, query, body }));
      if (written !== undefined) return;
    } else if (ConfigMap.parse(found).data?.["ca.pem"] === ca) return;
    await client.request({ method: "PATCH", path: `${configMaps}/${configMapName}`, query, body: { data } });
  }

  const material = await ownSecret();
  await publish(material.ca);
  return material;
}

function toMaterial(data: Readonly<Record<string, string>>): KeyMaterial | undefined {
  const [ca, cert, key, secret] = ["ca.pem", "tls.crt", "tls.key", "controllerSecret"].map((name) => data[name]);
  if (!ca || !cert || !key || !secret) return undefined;
  const text = (base64: string) => Buffer.from(base64, "base64").toString("utf8");
  return { ca: text(ca), cert: text(cert), key: text(key), controllerSecret: Buffer.from(secret, "base64") };
}

function secretOf({ ca, cert, key, controllerSecret }: KeyMaterial, namespace: string, resourceVersion?: string) {
  const base64 = (value: string | Buffer) => Buffer.from(value).toString("base64");
  return {
    apiVersion: "v1",
    kind: "Secret",
    metadata: { name: secretName, namespace, resourceVersion },
    data: {
      "ca.pem": base64(ca),
      "tls.crt": base64(cert),
      "tls.key": base64(key),
      controllerSecret: base64(controllerSecret),
    },
  };
}

/** Returns `undefined` for the one error status that is expected. */
async function unless(status: number, request: () => Promise<unknown>): Promise<unknown> {
  try {
    return await request();
  } catch (error) {
    if (error instanceof ApiError && error.status === status) return undefined;
    throw error;
  }
}
