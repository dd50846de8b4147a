/** Whether there is an account to compare each deployment's pull requests as, where previews are confined. */
import type { Config } from "../config.ts";
import { type Deployment, keyText } from "../model.ts";
import type { DoctorCluster } from "./cluster.ts";
import { type Finding, problem } from "./finding.ts";

const subject = "accounts of previews";

export async function examinePreviewAccounts(
  cluster: Pick<DoctorCluster, "serviceAccountExists">,
  { preview, defaultServiceAccount }: Pick<Config, "preview" | "defaultServiceAccount">,
  deployments: readonly Deployment[],
): Promise<Finding[]> {
  if (!preview.enabled || preview.isolation === "off") return [];
  // Of another cluster, only its own API server knows the accounts.
  const here = deployments.filter(({ spec }) => spec.kubeConfig === undefined);
  const nameOf = ({ spec }: Deployment) =>
    preview.serviceAccountName ?? spec.serviceAccountName ?? defaultServiceAccount;

  const without = here.filter((deployment) => nameOf(deployment) === undefined).map(({ key }) => keyText(key));
  const accounts = here.flatMap((deployment) => {
    const name = nameOf(deployment);
    return name === undefined ? [] : { namespace: deployment.key.namespace, name };
  });
  const distinct = [...new Map(accounts.map((account) => [keyText(account), account])).values()];
  const exist = await Promise.all(distinct.map((account) => cluster.serviceAccountExists(account)));
  const missing = distinct.filter((_, at) => !exist[at]).map(keyText);
  return [
    ...(preview.isolation === "required" && without.length > 0
      ? [
          problem(
            subject,
            `${listed(without)}: no service account, so pull requests are not previewed`,
            "name one by preview.serviceAccountName, or by spec.serviceAccountName; docs/preview-security.md",
          ),
        ]
      : []),
    ...(missing.length > 0
      ? [
          problem(
            subject,
            `there is no service account ${listed(missing)}: pull requests are not previewed`,
            "create it, or name another by preview.serviceAccountName; docs/preview-security.md",
          ),
        ]
      : []),
  ];
}

function listed(names: readonly string[]): string {
  const more = names.length - 3;
  return `${names.slice(0, 3).join(", ")}${more > 0 ? ` and ${more} more` : ""}`;
}
