/** A fake of the doctor's view of a cluster; a test defines the differences from a cluster without problems. */
import type { AccessReview, DoctorCluster, ListedDeployment } from "../../src/doctor/cluster.ts";
import { keyText } from "../../src/model.ts";

interface Fake {
  readonly found?: readonly ListedDeployment[];
  readonly legacy?: readonly unknown[];
  readonly resources?: readonly string[];
  readonly aheadMs?: number;
  readonly controllers?: Awaited<ReturnType<DoctorCluster["controllers"]>>;
  /** `namespace/name` → the Lease. */
  readonly leases?: Readonly<Record<string, { renewedAt: number; holder?: string }>>;
  /** Work of a Towline on deployments: `namespace/name` → time. */
  readonly works?: Readonly<Record<string, number>>;
  /** `namespace/name` of service accounts that do not exist. */
  readonly missingAccounts?: readonly string[];
  readonly missingNamespaces?: readonly string[];
  readonly forbidden?: (access: AccessReview) => boolean;
}

export function fakeDoctorCluster(fake: Fake = {}): DoctorCluster & { readonly asked: readonly AccessReview[] } {
  const asked: AccessReview[] = [];
  const leaseOf = (at: number, holder = "somebody") => ({ holder, renewedAt: at, durationMs: 15_000 });
  return {
    asked,
    server: () => Promise.resolve({ version: "v1.32.2", aheadMs: fake.aheadMs ?? 300 }),
    resources: () => Promise.resolve(fake.resources ?? ["kluctldeployments", "kluctldeployments/status"]),
    deployments: () => Promise.resolve(fake.found ?? []),
    legacy: () => Promise.resolve(fake.legacy),
    controllers: () => Promise.resolve(fake.controllers ?? []),
    lease(key) {
      const lease = fake.leases?.[keyText(key)];
      return Promise.resolve(lease && leaseOf(lease.renewedAt, lease.holder));
    },
    ownLease(key) {
      const at = fake.works?.[keyText(key)];
      return Promise.resolve(at === undefined ? undefined : leaseOf(at));
    },
    serviceAccountExists: (key) => Promise.resolve(!fake.missingAccounts?.includes(keyText(key))),
    namespaceExists: (name) => Promise.resolve(!fake.missingNamespaces?.includes(name)),
    deploymentNamespaces: () => Promise.resolve(undefined),
    may(access) {
      asked.push(access);
      return Promise.resolve(!fake.forbidden?.(access));
    },
  };
}
