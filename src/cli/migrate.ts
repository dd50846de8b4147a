/** `towline migrate`: converts KluctlDeployments of the legacy API. */
import { Option } from "commander";
import { ApiError } from "../errors.ts";
import { type Key, keyText } from "../model.ts";
import type { KubeClient } from "../kube/client.ts";
import { readOrNothing } from "../kube/read-or-nothing.ts";
import { collectionPath, resourcePath } from "../apis/api.ts";
import { legacyApi } from "../apis/flux-kluctl/api.ts";
import { createContextReader } from "../apis/flux-kluctl/read-context.ts";
import { kluctlApi } from "../apis/kluctl/api.ts";
import { type ApiResource, parseResource } from "../apis/resource.ts";
import { migrate, remarksOf, toYaml } from "../apis/flux-kluctl/migration.ts";
import { legacyApiVersion } from "../apis/flux-kluctl/resource.ts";
import { createSecrets } from "../kube/secrets.ts";
import { clusterConfig, type ClusterFlags, withClusterFlags } from "./cluster.ts";
import { describeError } from "./describe-error.ts";
import type { Define, ProgramDeps } from "./commands.ts";

interface Flags extends ClusterFlags {
  readonly apply?: true;
}

const help = `
Prints each KluctlDeployment of ${legacyApiVersion} as gitops.kluctl.io/v1beta1, with the same name and namespace.
Fields that are expressed differently, and fields without a counterpart, are listed in a comment above each resource and on
stderr. Nothing is changed in the cluster without --apply.

If your KluctlDeployments are managed in git, commit the output instead of applying it.

Examples:
  towline migrate                              Print the converted resources
  towline migrate -n shop > shop.yaml          Write those of one namespace to a file, to commit it
  towline migrate -n shop --apply              Create them; existing resources are not changed

Afterwards the server finds two resources of the same name, marks the legacy one with status.readyForMigration and ignores it.
The new one is deployed once, because its status is empty; objects that match git are not changed. Delete the legacy one
afterwards, never before: with spec.delete, deleting it first would delete the objects that it has deployed.

  kubectl delete kluctldeployments.flux.kluctl.io -n shop NAME

Exit codes:
  0  Everything was converted
  1  Some fields have no counterpart and were dropped: see the comments that begin with "lost"
  2  A resource could not be converted or applied; or invalid command line or configuration`;

export const defineMigrate: Define = (command, { env, out, err }, onCode) => {
  withClusterFlags(command)
    .option("--apply", "Create the converted resources in the cluster as well")
    .addOption(new Option("-o, --output <format>", "Output format").choices(["yaml"]).default("yaml"))
    .addHelpText("after", help)
    .action(async (flags: Flags) => {
      const { kubernetes, namespaces } = clusterConfig(env, flags);
      const { createKubeClient } = await import("../kube/client.ts"); // `--help` does not wait for it
      const client = createKubeClient(kubernetes);
      try {
        onCode(await runMigrate({ client, namespaces, apply: flags.apply === true, out, err }));
      } catch (error) {
        if (!(error instanceof ApiError)) throw error;
        err(`towline: ${describeError(error)}\n`);
        onCode(2);
      } finally {
        client.close();
      }
    });
};

interface MigrateOptions extends Pick<ProgramDeps, "out" | "err"> {
  readonly client: KubeClient;
  readonly namespaces: readonly string[];
  readonly apply: boolean;
}

async function runMigrate({ client, namespaces, apply, out, err }: MigrateOptions): Promise<number> {
  const resources = await findAll(client, namespaces);
  if (resources.length === 0) {
    err(`No KluctlDeployments of ${legacyApiVersion}${namespaces.length > 0 ? ` in ${namespaces.join(", ")}` : ""}.\n`);
    return 0;
  }
  const readContext = createContextReader({ client, secrets: createSecrets({ client }) });
  const migrations = await Promise.all(resources.map(async (one) => migrate(one, await readContext(one))));
  out(toYaml(migrations));
  for (const migration of migrations) {
    for (const remark of remarksOf(migration)) err(`${keyText(migration.key)}: ${remark}\n`);
  }
  let failed = migrations.some(({ problems }) => problems.length > 0);
  for (const migration of apply ? migrations : []) {
    if (migration.resource === undefined) continue;
    const { ok, words } = await create(client, migration.key, migration.resource);
    err(`${keyText(migration.key)}: ${words}\n`);
    failed ||= !ok;
  }
  if (failed) return 2;
  return migrations.some(({ notes }) => notes.some(({ kind }) => kind === "lost")) ? 1 : 0;
}

async function findAll(client: KubeClient, namespaces: readonly string[]): Promise<ApiResource[]> {
  const wanted = namespaces.length > 0 ? namespaces : [undefined];
  const lists = await Promise.all(
    wanted.map(async (namespace) => {
      try {
        return (await client.list(collectionPath(legacyApi, namespace))).items;
      } catch (error) {
        if (error instanceof ApiError && error.status === 404) return []; // the cluster does not have that API
        throw error;
      }
    }),
  );
  return lists.flat().flatMap((object) => parseResource(object) ?? []);
}

async function create(client: KubeClient, key: Key, body: unknown): Promise<{ ok: boolean; words: string }> {
  const path = collectionPath(kluctlApi, key.namespace);
  if ((await readOrNothing(client, resourcePath(kluctlApi, key))) !== undefined) {
    return { ok: true, words: "already exists in gitops.kluctl.io/v1beta1; not changed" };
  }
  try {
    await client.request({ method: "POST", path, query: { fieldManager: "towline-migrate" }, body });
    return { ok: true, words: "created; it will be deployed once. Delete the legacy resource when this one is Ready" };
  } catch (error) {
    if (!(error instanceof ApiError)) throw error;
    return { ok: false, words: `not created: ${error.message}` };
  }
}
