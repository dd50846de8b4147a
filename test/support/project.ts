/** Small kluctl projects. */
import { stringify } from "yaml";
import type { FileChanges } from "../../dev/parts/work-copy.ts";

export interface ProjectOptions {
  readonly namespace: string;
  /** Name of the ConfigMap; a template like `{{ args.name }}` lets several deployments share the project. */
  readonly name?: string;
  /** Data of the ConfigMap. */
  readonly data?: Record<string, string>;
  readonly discriminator?: string;
  /** Further objects: file name → object. */
  readonly objects?: Readonly<Record<string, object>>;
}

/** A project with the target `prod` and one item with a ConfigMap, plus the given additions. */
export function aProject({
  namespace,
  name = "settings",
  data = { color: "red" },
  discriminator,
  objects = {},
}: ProjectOptions): FileChanges {
  const config = {
    discriminator: discriminator ?? `${namespace}-{{ target.name }}${name === "settings" ? "" : `-${name}`}`,
    targets: [{ name: "prod" }, { name: "staging" }],
  };
  const settings = { apiVersion: "v1", kind: "ConfigMap", metadata: { name, namespace }, data };
  const files = Object.entries({ "settings.yml": settings, ...objects });
  return {
    ".kluctl.yaml": stringify(config),
    "deployment.yaml": stringify({ deployments: [{ path: "app" }] }),
    ...Object.fromEntries(files.map(([name, object]) => [`app/${name}`, stringify(object)])),
  };
}

/**
 * The spec of a KluctlDeployment for the project; its intervals are long, so that nothing happens that the test did not
 * cause.
 */
export function aSpec(url: string, more: Record<string, unknown> = {}): Record<string, unknown> {
  return {
    interval: "1h",
    source: { git: { url, ref: { branch: "main" } } },
    target: "prod",
    validate: false,
    timeout: "2m",
    ...more,
  };
}
