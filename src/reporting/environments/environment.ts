/** The environment of a git host that a deployment belongs to, from its annotations and its target. Pure. */
import { quote } from "../../kit/quote.ts";
import { annotation, type EnvironmentTier, environmentTiers, type GitDeployment, keyText } from "../../model.ts";

export interface HostEnvironment {
  /** `undefined`: the deployment is not reported to environments. */
  readonly name: string | undefined;
  readonly url?: string | undefined;
  /** Where its objects serve it, for an environment to which nobody gave a URL. */
  readonly servedUrl?: string | undefined;
  readonly tier?: EnvironmentTier | undefined;
  /** What is invalid in the annotations, and therefore ignored. */
  readonly problems: readonly string[];
}

/** GitLab's rules, which are stricter than GitHub's: https://docs.gitlab.com/ci/environments/ */
const maxLength = 255;
const nameRule = /^[\w${}. -](?:[\w/${}. -]*[\w${}. -])?$/;
const otherCharacters = /[^\w/${}. -]+/g;
const usualTask = "towline";

/**
 * By default, an environment is named for the target, so that the deployments of a monorepo share a few environments. With
 * another `task` than the default one, its name is part of the environment's: servers for several clusters may deploy the same target.
 */
export function environmentOf(
  { key, annotations, spec }: Pick<GitDeployment, "key" | "annotations" | "spec">,
  task: string,
): HostEnvironment {
  const target = spec.targetNameOverride ?? spec.target ?? keyText(key);
  const usual = toName(task === usualTask ? target : `${task}/${target}`);
  const name = readName(annotations[annotation.environment], usual);
  const url = readUrl(annotations[annotation.environmentUrl]);
  const served = readUrl(annotations[annotation.servedUrl]);
  const tier = readTier(annotations[annotation.environmentTier]);
  const problems = [name, url, tier].flatMap(({ problem }) => problem ?? []);
  return { name: name.value, url: url.value, servedUrl: served.value, tier: tier.value, problems };
}

interface Read<T> {
  readonly value: T | undefined;
  readonly problem?: string;
}

function readName(text: string | undefined, usual: string): Read<string> {
  const name = text?.trim();
  if (name === undefined) return { value: usual };
  if (name === "none") return { value: undefined };
  if (name.length <= maxLength && nameRule.test(name)) return { value: name };
  const rule = `use at most ${maxLength} letters, digits, spaces and any of _ . - $ { }, separated by /`;
  return { value: usual, problem: `annotation ${annotation.environment}: ${quote(text)} is not a name; ${rule}` };
}

function readUrl(text: string | undefined): Read<string> {
  if (text === undefined) return { value: undefined };
  const problem = (what: string) => ({ value: undefined, problem: `annotation ${annotation.environmentUrl}: ${what}` });
  const url = URL.parse(text.trim());
  // The value is not quoted, because a URL may contain credentials.
  if (url === null || !/^https?:$/.test(url.protocol))
    return problem("is not a URL that begins with https:// or http://");
  if (url.username !== "" || url.password !== "") return problem("must not contain credentials");
  if (url.href.length > maxLength) return problem(`is longer than ${maxLength} characters`);
  return { value: url.href };
}

function readTier(text: string | undefined): Read<EnvironmentTier> {
  if (text === undefined) return { value: undefined };
  const value = environmentTiers.find((tier) => tier === text.trim());
  if (value !== undefined) return { value };
  const problem = `annotation ${annotation.environmentTier}: ${quote(text)} is not known; use ${environmentTiers.join(", ")}`;
  return { value, problem };
}

/** A target may have any name. */
export function toName(text: string): string {
  const name = text.replaceAll(otherCharacters, "-").replace(/^\/+/, "").slice(0, maxLength).trim().replace(/\/+$/, "");
  return name === "" ? usualTask : name;
}
