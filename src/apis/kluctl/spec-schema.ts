/**
 * The spec of a KluctlDeployment as users write it: the schema that parses it also generates the CRD. Checks that
 * kluctl's own CRD does not make are refinements, which the generated CRD omits: a stored resource that the CRD's
 * schema refuses could not even receive a status that reports the problem.
 */
import { z } from "zod";
import { parseDuration } from "../../kit/duration.ts";

const whole = /^([0-9]+(\.[0-9]+)?(ms|s|m|h))+$/;
const beginning = /^(([0-9]+(\.[0-9]+)?(ms|s|m|h))+)/; // the pattern of kluctl's CRD for some of them
const notDuration = "is not a duration; use e.g. 30s, 5m or 1h30m";

function duration(description: string, pattern = whole) {
  return z
    .string()
    .regex(pattern, { error: notDuration, abort: true })
    .refine((text) => parseDuration(text) !== undefined, { error: notDuration, abort: true })
    .refine((text) => parseDuration(text) !== 0, "is too short; use e.g. 30s, 5m or 1h30m")
    .describe(description);
}

const flag = (description: string) => z.boolean().default(false).describe(description);
const texts = (description: string) => z.array(z.string()).optional().describe(description);
const anything = (description: string) =>
  z.record(z.string(), z.unknown()).meta({ description, type: "object", "x-kubernetes-preserve-unknown-fields": true });

const SecretRef = z.object({ name: z.string().refine((name) => name !== "", "references no Secret") });

const GitRef = z
  .object({
    branch: z.string().optional().describe("Branch to follow."),
    tag: z.string().optional().describe("Tag to follow."),
    commit: z.string().optional().describe("Commit to pin to."),
  })
  .describe("Ref to deploy; at most one of these. Defaults to the default branch.");

const Git = z
  .object({
    url: z.string().describe("URL of the repository, over https or ssh."),
    ref: GitRef.optional(),
    path: z.string().optional().describe("Directory of the project inside the repository."),
  })
  .describe("A git repository to deploy from.");

const Oci = z
  .object({
    url: z.string().describe("URL of the artifact, starting with oci://."),
    ref: z
      .object({ digest: z.string().optional(), tag: z.string().optional() })
      .optional()
      .describe("Digest or tag of the artifact. Defaults to the tag latest."),
    path: z.string().optional().describe("Directory of the project inside the artifact."),
  })
  .describe("An OCI artifact to deploy from.");

const GitCredentials = z.object({
  host: z.string().optional().describe("Host that the login is for; * for any host, which only ssh logins support."),
  path: z.string().optional().describe("Glob over the path of the repositories that the login is for."),
  secretRef: SecretRef.describe(
    "Secret with username and password, or identity and known_hosts, and optionally caFile.",
  ),
});

const Source = z
  .object({
    git: Git.optional(),
    oci: Oci.optional(),
    url: Git.shape.url.optional().describe("Deprecated: use git.url."),
    ref: GitRef.optional().describe("Deprecated: use git.ref."),
    path: z.string().optional().describe("Deprecated: use git.path."),
    secretRef: SecretRef.optional().describe(
      "Deprecated: use spec.credentials.git. A login for the source, and for repositories on the same host that the project includes.",
    ),
    credentials: z
      .array(z.object({ host: z.string().optional(), pathPrefix: z.string().optional(), secretRef: SecretRef }))
      .optional()
      .describe("Older form of spec.credentials.git; prefer that field."),
  })
  .describe("Source of the project.");

const Credentials = z
  .object({
    git: z.array(GitCredentials).optional().describe("Logins for git repositories; the first match is used."),
    helm: z
      .array(
        z.object({
          host: z.string().describe("Host that the login is for."),
          path: z.string().optional().describe("Glob over the path of the charts that the login is for."),
          secretRef: SecretRef,
        }),
      )
      .optional()
      .describe("Logins for Helm repositories."),
    oci: z
      .array(
        z.object({
          registry: z.string().optional().describe("Registry that the login is for."),
          repository: z.string().optional().describe("Glob over the repositories that the login is for."),
          secretRef: SecretRef,
        }),
      )
      .optional()
      .describe("Logins for OCI registries."),
  })
  .describe("Logins for the project, its sources and its charts.");

const Image = z.object({
  image: z.string().optional(),
  imageRegex: z.string().optional(),
  resultImage: z.string(),
  deployedImage: z.string().optional(),
  namespace: z.string().optional(),
  object: z
    .object({
      group: z.string().optional(),
      version: z.string().optional(),
      kind: z.string(),
      name: z.string(),
      namespace: z.string().optional(),
    })
    .optional(),
  deployment: z.string().optional(),
  container: z.string().optional(),
  deployTags: z.array(z.string()).optional(),
  deploymentDir: z.string().optional(),
});

/** An empty name would not impersonate anybody: the work would be done with the server's own rights. */
function isObjectName(name: string): boolean {
  return name.length <= 253 && /^[a-z0-9]([-a-z0-9.]*[a-z0-9])?$/.test(name);
}

const targetName = z.string().min(1).max(63).optional();

export const SpecSchema = z.object({
  source: Source,
  sourceOverrides: z
    .array(z.object({ repoKey: z.string(), url: z.string(), isGroup: z.boolean().optional() }))
    .optional()
    .describe("Sources that replace others."),
  credentials: Credentials.optional(),
  decryption: z
    .object({
      provider: z.enum(["sops"]).describe("Name of the decryption engine."),
      secretRef: SecretRef.optional().describe("Secret with the keys."),
      serviceAccount: z.string().optional().describe("Service account that authenticates to the cloud's key service."),
    })
    .optional()
    .describe("How encrypted files are decrypted."),
  interval: duration("How often the project is rendered and compared with the cluster; it is deployed if it changed."),
  retryInterval: duration("Delay before a retry after a failure. Defaults to interval.").optional(),
  deployInterval: duration("How often to deploy even if nothing changed. Defaults to never.", beginning).optional(),
  validateInterval: duration("How often to validate. Defaults to interval.", beginning).optional(),
  timeout: duration("Timeout of one reconciliation.").optional(),
  suspend: z.boolean().optional().describe("Whether to stop reconciling until this is false again."),
  helmCredentials: z
    .array(z.object({ secretRef: SecretRef.optional() }))
    .optional()
    .describe("Older form of spec.credentials.helm; prefer that field."),
  serviceAccountName: z
    .string()
    .refine(isObjectName, "is not the name of a service account; set a valid name, or remove the field for the default")
    .optional()
    .describe("Service account that deploys, in the namespace of the KluctlDeployment."),
  kubeConfig: z
    .object({ secretRef: SecretRef.extend({ key: z.string().optional() }).optional() })
    .optional()
    .describe("Secret with the kubeconfig of another cluster to deploy to."),
  target: targetName.describe("Target to deploy; a project without targets needs none."),
  targetNameOverride: targetName.describe("Name that replaces the target's own name."),
  context: z.string().optional().describe("Kubernetes context to use instead of the target's."),
  args: anything("Arguments for the target.").optional(),
  images: z.array(Image).optional().describe("Images for placeholders in the project (fixed images)."),
  dryRun: flag("Whether to deploy as a dry run only."),
  noWait: flag("Whether to skip waiting for objects to become ready."),
  forceApply: flag("Whether to overwrite fields managed by others."),
  replaceOnError: flag("Whether to replace objects that cannot be patched."),
  forceReplaceOnError: flag("Whether to delete and create objects that cannot be replaced."),
  abortOnError: flag("Whether to stop at the first error."),
  includeTags: texts("Tags of deployment items to include; all others are skipped."),
  excludeTags: texts("Tags of deployment items to exclude."),
  includeDeploymentDirs: texts("Directories of deployment items to include; all others are skipped."),
  excludeDeploymentDirs: texts("Directories of deployment items to exclude."),
  deployMode: z
    .enum(["full-deploy", "poke-images"])
    .default("full-deploy")
    .describe("Whether to deploy everything, or only to replace images."),
  validate: z.boolean().default(true).describe("Whether to validate after deploying."),
  prune: flag("Whether to delete objects that are no longer in the project."),
  delete: flag("Whether to delete the target's objects together with this resource."),
  manual: z.boolean().optional().describe("Whether each change must be approved before it is deployed."),
  manualObjectsHash: z
    .string()
    .optional()
    .describe(
      "Hash of the rendered objects that are approved, as given in the event WaitingForApproval and usually in status.lastObjectsHash.",
    ),
});

export type RawSpec = z.output<typeof SpecSchema>;
