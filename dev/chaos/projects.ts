/** Four repositories with the projects of twelve deployments, as their authors push them. */
import { stringify } from "yaml";
import type { DeploymentFacts } from "./history.ts";
import type { Tree } from "./render.ts";

export interface DeploymentPlan extends DeploymentFacts {
  readonly spec: Readonly<Record<string, unknown>>;
  readonly annotations: Readonly<Record<string, string>>;
  /** A directory outside the project that it reads without naming it literally. */
  readonly reads?: string | undefined;
}

export interface Plan {
  readonly repositories: readonly string[];
  readonly deployments: readonly DeploymentPlan[];
  /** The files of a repository's first commit. */
  files(repo: string): Tree;
  /** The file that holds the content of one object of a deployment. */
  contentFile(deployment: DeploymentPlan, object: string): string;
  content(deployment: DeploymentPlan, object: string, color: string): string;
}

/** In the order in which they are applied; the last one comes after a barrier. */
export const objectNames = ["a", "b", "c"] as const;
/** An object that a project gains and loses. */
export const extraObject = "extra";
/** The repository whose files other repositories include. */
const library = "base";
/** Holds a path for the project that includes it, which thereby reads a directory above itself without naming it. */
const valuesFile = "values/where.yaml";
const libraryDir = "part";

/** With this interval only a change triggers a reconciliation, so that a lost change stays lost. */
const daily = "24h";
/** Drift is found by interval checks. */
const often = "10s";

export function createPlan(namespace: string, urlOf: (repo: string) => string): Plan {
  const plan = (
    name: string,
    repo: string,
    more: Partial<Omit<DeploymentPlan, "spec">> & { spec?: Record<string, unknown> } = {},
  ): DeploymentPlan => ({
    name,
    repo,
    path: name,
    often: more.spec?.["interval"] === often,
    prunes: more.spec?.["prune"] === true,
    annotations: {},
    ...more,
    spec: {
      interval: daily,
      timeout: "2m",
      validate: false,
      source: { git: { url: urlOf(repo), ref: { branch: "main" }, path: more.path ?? name } },
      target: "prod",
      args: { deployment: `${namespace}/${name}` },
      ...more.spec,
    },
  });
  const deployments = [
    plan("mono-a", "mono"),
    plan("mono-b", "mono", { spec: { validate: true } }),
    plan("mono-shared", "mono", { reads: "shared/mono-shared", includes: library }),
    plan("mono-manual", "mono", { spec: { manual: true } }),
    plan("shop-prod", "shop", { group: "shop" }),
    plan("shop-staging", "shop", { spec: { interval: often } }),
    plan("shop-after", "shop", {
      dependsOn: "shop-prod",
      annotations: { "towline.dev/depends-on": "shop-prod" },
    }),
    plan("shop-clash", "shop", { group: "shop" }),
    plan("base", library),
    plan("site", "site", { spec: { delete: true } }),
    plan("site-includes", "site", { includes: library }),
    plan("site-prune", "site", { spec: { prune: true } }),
  ];

  const configMap = (name: string, color: string) =>
    stringify({ apiVersion: "v1", kind: "ConfigMap", metadata: { name, namespace }, data: { color } });
  const dirOf = ({ path, reads }: DeploymentPlan) => reads ?? path;

  function filesOf(deployment: DeploymentPlan): [string, string][] {
    const { name, path, reads, group, includes } = deployment;
    const discriminator = `${namespace}-${group ?? name}`;
    const below = (place: string) => [{ path: `${place}one` }, { barrier: true }, { path: `${place}two` }];
    const library_ = includes === undefined ? [] : [{ git: { url: urlOf(includes), subDir: libraryDir } }];
    const own = [
      [`${path}/.kluctl.yaml`, stringify({ discriminator, targets: [{ name: "prod" }] })],
      ...(reads === undefined
        ? [[`${path}/deployment.yaml`, stringify({ deployments: [...below(""), ...library_] })]]
        : [
            [
              `${path}/deployment.yaml`,
              stringify({
                vars: [{ git: { url: urlOf(library), path: valuesFile } }],
                deployments: [{ include: "inner" }],
              }),
            ],
            [`${path}/inner/deployment.yaml`, stringify({ deployments: below("{{ where }}/") })],
          ]),
      ...objectNames.map((object) => [contentFile(deployment, object), content(deployment, object, "first")]),
    ] as [string, string][];
    return own;
  }

  function contentFile(deployment: DeploymentPlan, object: string): string {
    const stage = object === objectNames.at(-1) ? "two" : "one";
    return `${dirOf(deployment)}/${stage}/${object}.yml`;
  }

  function content({ name }: DeploymentPlan, object: string, color: string): string {
    return configMap(`${name}-${object}`, color);
  }

  return {
    repositories: ["mono", "shop", library, "site"],
    deployments,
    files(repo) {
      const files = new Map(deployments.filter((one) => one.repo === repo).flatMap(filesOf));
      files.set("README.md", "first\n");
      if (repo === library) {
        files.set(valuesFile, stringify({ where: "../../shared/mono-shared" }));
        files.set(`${libraryDir}/deployment.yaml`, stringify({ deployments: [{ path: "objects" }] }));
        files.set(libraryFile, configMap(libraryObject, "first"));
      }
      return files;
    },
    contentFile,
    content,
  };
}

/** The file of the library that other projects include. */
export const libraryFile = `${libraryDir}/objects/included.yml`;
const libraryObject = "site-includes-included";

export function libraryContent(namespace: string, color: string): string {
  return stringify({
    apiVersion: "v1",
    kind: "ConfigMap",
    metadata: { name: libraryObject, namespace },
    data: { color },
  });
}
