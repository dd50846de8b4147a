/** Links from comments and statuses to the page: written by the job that reports, checked by the page of any replica. */
import type { ForgeConfig } from "../config.ts";
import type { LiveConfig } from "../config/live.ts";
import type { PullRequestKey } from "../model.ts";
import type { Report } from "../model/report.ts";
import type { Clock } from "../ports.ts";
import {
  commitAddress,
  createPageLinks,
  linkExpiry,
  type LinkState,
  type PageLinks,
  pullRequestAddress,
} from "../reporting/page-link.ts";

export interface PullRequestLinks {
  /** `undefined` if the page has no public address, links are disabled, or there is nothing to show. */
  urlOf(report: Report): string | undefined;
  /** The view of a commit, which only opens for users of the page. `undefined` if it has no public address, or links are disabled. */
  urlOfCommit(commit: string): string | undefined;
  check(key: PullRequestKey, text: string): LinkState;
  /** Whether a link opens the page only for users who are logged in. */
  needsLogin(): boolean;
}

export interface PullRequestLinksDeps {
  readonly live: Pick<LiveConfig, "now">;
  readonly clock: Clock;
}

/**
 * Links are signed with the forge's login: the server has it wherever it writes comments, all replicas share it, and its
 * holder can read the comments anyway.
 */
export function createPullRequestLinks({ live, clock }: PullRequestLinksDeps): PullRequestLinks {
  const known = new WeakMap<ForgeConfig, PageLinks>();

  function linksOf(id: string): PageLinks | undefined {
    const forge = live.now.forges.find((one) => one.id === id);
    const secret = forge?.token ?? forge?.app?.privateKey;
    if (forge === undefined || secret === undefined || live.now.page?.pullRequestLinks === "off") return undefined;
    const links = known.get(forge) ?? createPageLinks(secret.reveal());
    known.set(forge, links);
    return links;
  }

  return {
    urlOf(report) {
      const { pullRequest, previews } = report;
      const publicUrl = live.now.page?.publicUrl;
      const links = linksOf(pullRequest.forge);
      if (publicUrl === undefined || links === undefined || previews.length === 0) return undefined;
      return pullRequestAddress(publicUrl, pullRequest, links.sign(pullRequest, linkExpiry(report)));
    },
    urlOfCommit(commit) {
      const { publicUrl, pullRequestLinks } = live.now.page ?? {};
      return publicUrl === undefined || pullRequestLinks === "off" ? undefined : commitAddress(publicUrl, commit);
    },
    check: (key, text) => linksOf(key.forge)?.check(key, text, clock.now()) ?? { state: "invalid" },
    needsLogin: () => live.now.page?.pullRequestLinks !== "signed",
  };
}
