/** Installs CustomResourceDefinitions. */
import { readdir, readFile } from "node:fs/promises";
import { join } from "node:path";
import { setTimeout as delay } from "node:timers/promises";
import { parse } from "yaml";
import type { KubeClient } from "../../src/kube/client.ts";

/** A CustomResourceDefinition, as far as it is read here. */
interface Definition {
  readonly metadata: { readonly name: string };
}

interface Installed {
  readonly status?: { readonly conditions?: readonly { readonly type: string; readonly status: string }[] };
}

const list = "/apis/apiextensions.k8s.io/v1/customresourcedefinitions";
const attempts = 100;

/** Reads all definitions in a directory, one in each file. */
export async function readDefinitions(directory: string): Promise<readonly object[]> {
  const files = (await readdir(directory)).filter((name) => name.endsWith(".yaml"));
  return Promise.all(files.map(async (name) => parse(await readFile(join(directory, name), "utf8")) as object));
}

/**
 * Applies the definitions and resolves when the cluster accepts their resources. They are sent as they are: the typed
 * client of @kubernetes/client-node omits `x-kubernetes-preserve-unknown-fields`, and the API server would then prune
 * fields of the resources.
 */
export async function installDefinitions(
  client: Pick<KubeClient, "request">,
  definitions: readonly object[],
): Promise<void> {
  const query = { fieldManager: "towline-dev", force: true };
  for (const body of definitions)
    await client.request({ method: "PATCH", patch: "apply", path: pathOf(body), query, body });
  for (const definition of definitions) await established(client, definition);
}

/** Resolves when the cluster accepts resources of this definition. */
export async function established(client: Pick<KubeClient, "request">, definition: object): Promise<void> {
  for (let attempt = 0; attempt < attempts; attempt++, await delay(100)) {
    const { status } = (await client.request({ method: "GET", path: pathOf(definition) })) as Installed;
    if (status?.conditions?.some((one) => one.type === "Established" && one.status === "True")) return;
  }
  throw new Error(`The API server did not establish ${nameOf(definition)} within ${attempts / 10} s.`);
}

function pathOf(definition: object): string {
  return `${list}/${nameOf(definition)}`;
}

/** The name of a CustomResourceDefinition. */
export function nameOf(definition: object): string {
  return (definition as Definition).metadata.name;
}
