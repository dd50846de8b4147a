/** `towline migrate`: from the older API to the newer one. */
import { Option } from "commander";
import { ApiError } from "../errors.ts";
import { type Key, keyText } from "../model.ts";
import type { KubeClient } from "../kube/client.ts";
import { createGitRepositoryReader, readOrNothing } from "../kube/legacy/git-repositories.ts";
import { migrate, type Migration, remarksOf, toYaml } from "../kube/legacy/migration.ts";
import {
  legacyApiVersion,
  legacyCollection,
  legacyKey,
  type LegacyResource,
  parseLegacy,
} from "../kube/legacy/resource.ts";
import { referencesOf } from "../kube/legacy/translate-spec.ts";
import { createSecrets } from "../kube/secrets.ts";
import { clusterConfig, type ClusterFlags, withClusterFlags } from "./cluster.ts";
import { describeError } from "./describe-error.ts";
import type { Define, ProgramDeps } from "./commands.ts";

interface Flags extends ClusterFlags {
  readonly apply?: true;
}

const help = `
It finds the KluctlDeployments of ${legacyApiVersion} and prints each as one of gitops.kluctl.io/v1beta1, with the
same name and namespace. What is said in another way now, and what cannot be said any more, stands above each as a
comment, field by field, and on stderr. Nothing is changed in the cluster unless you say --apply.

If your KluctlDeployments come from git, commit what is printed instead of applying it.

  towline migrate                              look at it
  towline migrate -n shop > shop.yaml          those of one namespace, to be committed
  towline migrate -n shop --apply              create them; those that are there already are left as they are

What happens then: the server sees two of one name, marks the older one with status.readyForMigration and leaves it alone.
The newer one is deployed once, because its status is empty; objects that are as git says stay as they are. Delete
the older one afterwards, never before: with spec.delete, deleting it first would delete what it has deployed.

  kubectl delete kluctldeployments.flux.kluctl.io -n shop NAME

Exit codes:
  0  all that was found can be expressed
  1  something has no counterpart and is left out: see the comments that begin with "lost"
  2  one of them cannot be migrated, or not applied; or the command line or the configuration is wrong`;

export const defineMigrate: Define = (command, { env, out, err }, onCode) => {
  withClusterFlags(command)
    .option("--apply", "create them in the cluster, instead of printing them only")
    .addOption(new Option("-o, --output <format>", "how to print them").choices(["yaml"]).default("yaml"))
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
    err(
      `There are no KluctlDeployments of ${legacyApiVersion}${namespaces.length > 0 ? ` in ${namespaces.join(", ")}` : ""}.\n`,
    );
    return 0;
  }
  const migrations = await Promise.all(resources.map(createMigrator(client)));
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

async function findAll(client: KubeClient, namespaces: readonly string[]): Promise<LegacyResource[]> {
  const wanted = namespaces.length > 0 ? namespaces : [undefined];
  const lists = await Promise.all(
    wanted.map(async (namespace) => {
      try {
        return (await client.list(legacyCollection(namespace))).items;
      } catch (error) {
        if (error instanceof ApiError && error.status === 404) return []; // the cluster does not have that API
        throw error;
      }
    }),
  );
  return lists.flat().flatMap((object) => parseLegacy(object) ?? []);
}

/** Reads what a resource refers to. */
function createMigrator(client: KubeClient): (resource: LegacyResource) => Promise<Migration> {
  const repositories = createGitRepositoryReader(client);
  const secrets = createSecrets({ client });
  return async (resource) => {
    const { namespace } = legacyKey(resource);
    const { gitRepository: named, helmSecrets: names } = referencesOf(resource.spec);
    const gitRepository = named && (await repositories.get({ ...named, namespace: named.namespace || namespace }));
    const found = await Promise.all(names.map(async (name) => [name, await secrets.get(namespace, name)] as const));
    const helmSecrets = new Map(found.flatMap(([name, data]) => (data ? [[name, data] as const] : [])));
    return migrate(resource, { gitRepository, helmSecrets });
  };
}

async function create(
  client: KubeClient,
  { namespace, name }: Key,
  body: unknown,
): Promise<{ ok: boolean; words: string }> {
  const path = `/apis/gitops.kluctl.io/v1beta1/namespaces/${encodeURIComponent(namespace)}/kluctldeployments`;
  if ((await readOrNothing(client, `${path}/${encodeURIComponent(name)}`)) !== undefined) {
    return { ok: true, words: "is there already in the newer API; left as it is" };
  }
  try {
    await client.request({ method: "POST", path, query: { fieldManager: "towline-migrate" }, body });
    return { ok: true, words: "created; it is deployed once now. Delete the older one when this one is Ready" };
  } catch (error) {
    if (!(error instanceof ApiError)) throw error;
    return { ok: false, words: `not created: ${error.message}` };
  }
}
