/** Which of a deployment's settings prevent skipping. Pure. */
import { parseDuration } from "../kit/duration.ts";
import { annotation, type Deployment, type Identity } from "../model.ts";
import { hasUnsteadyWords } from "../model/template-code.ts";

/** The setting that makes skipping impossible, whatever the project is; `undefined` if there is none. */
export function whySettings({ spec, annotations }: Deployment, identity: Identity): string | undefined {
  const { source, decryption } = spec;
  if (spec.deployMode !== "full-deploy") return `spec.deployMode is ${spec.deployMode}`;
  if (spec.dryRun) return "spec.dryRun";
  if (spec.sourceOverrides.length > 0) return "spec.sourceOverrides";
  if (annotations[annotation.dependsOn] !== undefined) return annotation.dependsOn;
  if (annotations[annotation.confirmPrune] !== undefined) return annotation.confirmPrune;
  // Objects that are not its own may decide.
  if (annotations[annotation.healthChecks] !== undefined) return annotation.healthChecks;
  if (source.kind === "oci" && source.ref.digest === undefined) return "spec.source.oci.ref has no digest";
  if (identity.decryption?.webIdentity !== undefined) return "an AWS role is used for decryption";
  if (decryption !== undefined) {
    const other = Object.keys(identity.decryption?.data ?? {}).find((name) => !/\.(?:asc|agekey)$/.test(name));
    if (other !== undefined) return `${other} decrypts with keys outside the cluster`;
  }
  const args = JSON.stringify(spec.args ?? {});
  if (/\{[{%]/.test(args) || hasUnsteadyWords(args)) return "spec.args may read a clock";
  return undefined;
}

/** Returns `undefined` if the annotation is not a valid duration. */
export function fullIntervalOf({ annotations }: Deployment, byDefault: number): number | undefined {
  const text = annotations[annotation.fullInterval];
  if (text === undefined) return byDefault;
  const ms = parseDuration(text.trim());
  return ms === undefined || ms < 0 ? undefined : ms;
}
