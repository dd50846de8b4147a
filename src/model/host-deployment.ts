/** What a git host shows of environments on its own pages: which commit is where, and how it got there. */

export const environmentTiers = ["production", "staging", "testing", "development", "other"] as const;
export type EnvironmentTier = (typeof environmentTiers)[number];

/** A deployment in the sense of a git host: one commit in one environment. */
export interface HostDeployment {
  readonly environment: string;
  /**
   * `canceled`: it ended without a result, because a newer commit superseded it. `replaced`: it was live, and is not any
   * more.
   */
  readonly state: "queued" | "in_progress" | "success" | "failure" | "canceled" | "replaced";
  /** One line of plain text; the forge client shortens it to the forge's limit. */
  readonly description: string;
  /** Full name of the branch or tag that the environment follows. */
  readonly ref: string;
  /** Where users reach what is deployed. */
  readonly url?: string | undefined;
  readonly tier?: EnvironmentTier | undefined;
  /** Distinguishes our deployments, and those of servers for other clusters, from any others in the environment. */
  readonly task: string;
}

/** A deployment as it was written to a forge last. */
export interface PostedDeployment extends HostDeployment {
  readonly commit: string;
  /** The forge's id of it; absent if the forge cannot show its state. */
  readonly id?: string | undefined;
  /** The earlier deployment that the forge shows as live until this one succeeds. */
  readonly live?: { readonly commit: string; readonly id?: string | undefined } | undefined;
}
