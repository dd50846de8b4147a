/**
 * Which login and which connection the API requests of a preview's kluctl use: the service account that the preview
 * names, with nothing but a token of that account. Credentials never leave the server.
 */
import { createHash } from "node:crypto";
import { parse } from "yaml";
import { z } from "zod";
import { resolveAllowed, systemLookup, toNodeLookup } from "../kit/address.ts";
import { PreviewRefusedError } from "../errors.ts";
import type { ApiAccess, Identity, Key, RemoteCluster } from "../model.ts";
import { type AccountToken, createAccountToken } from "./account-token.ts";
import { createKubeClient, type KubeClient } from "./client.ts";
import { withoutLogin } from "./cluster-access.ts";
import { type KubeConfigOptions, loadKubeConfig } from "./kubeconfig.ts";
import { createServiceAccounts } from "./service-accounts.ts";
import { createTransport, type Transport } from "./transport.ts";

export interface ApiLoginsDeps {
  /** The server's own cluster. */
  readonly kubernetes: Pick<KubeConfigOptions, "kubeconfig" | "context">;
  readonly client: Pick<KubeClient, "request">;
  /** Whether previews that name no account are compared with the server's own login. */
  readonly allowServerLogin: () => boolean;
  readonly now?: (() => number) | undefined;
}

export interface ApiLogins {
  /** Throws PreviewRefusedError. */
  login(run: Pick<Identity, "impersonate" | "cluster">): Promise<ApiAccess>;
  close(): void;
}

/** A cluster, and the login that requests tokens there. */
interface Place {
  readonly cluster: string;
  /** Equal for the same login. */
  readonly id: string;
  readonly whose: string;
  readonly client: Pick<KubeClient, "request">;
  /** Connections without any login: a client certificate, for example, would take precedence over the token. */
  readonly bare: Transport;
  /** Connections with the login itself. */
  readonly own: Transport;
  /** Which user the login's own kubeconfig impersonates. */
  readonly as: Acting;
  readonly tokens: Map<string, AccountToken>;
  users: number;
  close(): void;
}

/** The impersonation part of a request. */
interface Acting {
  readonly as?: string | undefined;
  readonly asGroups?: readonly string[] | undefined;
  readonly headers?: Readonly<Record<string, string>> | undefined;
}

const mostRemote = 50;
/** Ten times the largest object that Kubernetes accepts. The cluster may be under anybody's control. */
const mostAnswerMiB = 16;

export function createApiLogins({
  kubernetes,
  client,
  allowServerLogin,
  now = () => performance.now(),
}: ApiLoginsDeps): ApiLogins {
  const remote = new Map<string, Place>();
  let home: Place | undefined;

  function openHome(): Place {
    const access = loadKubeConfig(kubernetes);
    const [bare, own] = [createTransport(withoutLogin(access)), createTransport(access)];
    return { ...place({ cluster: "", id: "", whose: "the server", bare, own }), client };
  }

  function place(of: Pick<Place, "cluster" | "id" | "whose" | "bare" | "own">): Omit<Place, "client"> {
    const close = () => [of.bare, of.own].forEach((each) => each.close());
    return { ...of, as: {}, tokens: new Map(), users: 0, close };
  }

  function openRemote({ kubeconfig, fingerprint }: RemoteCluster, impersonate: string | undefined): Place {
    const id = createHash("sha256").update(kubeconfig).digest("hex");
    const known = remote.get(id);
    if (known !== undefined) return known;
    for (const [old, one] of remote) {
      if (remote.size < mostRemote) break;
      if (one.users > 0) continue;
      one.close();
      remote.delete(old);
    }
    const { text, as } = withoutImpersonation(kubeconfig);
    const lookup = toNodeLookup((host) => resolveAllowed(host, systemLookup));
    const access = loadKubeConfig({ text });
    const asking = createKubeClient({ text, lookup, mostAnswerMiB });
    const made = place({
      cluster: fingerprint,
      id,
      whose: "the login of the deployment's kubeConfig",
      bare: createTransport(withoutLogin(access), lookup),
      own: createTransport(access, lookup),
    });
    const opened: Place = {
      ...made,
      client: asking,
      as: impersonate === undefined ? as : {},
      close() {
        made.close();
        asking.close();
      },
    };
    remote.set(id, opened);
    return opened;
  }

  return {
    async login({ impersonate, cluster }) {
      if (cluster === undefined && impersonate === undefined && !allowServerLogin()) {
        throw new PreviewRefusedError(
          "a preview needs a service account, or it would have all rights of the server: set preview.serviceAccountName for all previews, or the deployment's spec.serviceAccountName (docs/preview-security.md)",
        );
      }
      const there = cluster === undefined ? (home ??= openHome()) : openRemote(cluster, impersonate);
      const access = impersonate === undefined ? withOwnLogin(there) : withToken(there, impersonate, now);
      await access.prepare();
      there.users++;
      let released = false;
      return {
        ...access,
        cluster: there.cluster,
        release() {
          if (!released) there.users--;
          released = true;
        },
      };
    },
    close() {
      home?.close();
      for (const each of remote.values()) each.close();
      remote.clear();
    },
  };
}

type Sender = Pick<ApiAccess, "account" | "send" | "renewLogin"> & { prepare(): Promise<unknown> };

function withToken(there: Place, user: string, now: () => number): Sender {
  let token = there.tokens.get(user);
  if (token === undefined) {
    const serviceAccounts = createServiceAccounts(there);
    token = createAccountToken(toAccount(user), { serviceAccounts, whose: there.whose, now });
    there.tokens.set(user, token);
  }
  const own = token;
  return {
    account: JSON.stringify([there.cluster, user]),
    prepare: () => own.get(),
    async send({ headers, ...exchange }) {
      return there.bare.send({ ...exchange, headers: { ...headers, Authorization: `Bearer ${await own.get()}` } });
    },
    renewLogin: () => own.drop(),
  };
}

function withOwnLogin({ cluster, id, own, as: { headers: more, ...acting } }: Place): Sender {
  return {
    account: JSON.stringify([cluster, "", id]),
    prepare: async () => undefined,
    send: ({ headers, ...exchange }) => own.send({ ...exchange, ...acting, headers: { ...headers, ...more } }),
    renewLogin: () => own.renewLogin(),
  };
}

function toAccount(user: string): Key {
  const [, namespace, name] = /^system:serviceaccount:([^:]+):([^:]+)$/.exec(user) ?? [];
  if (namespace === undefined || name === undefined) throw new PreviewRefusedError(`${user} is not a service account`);
  return { namespace, name };
}

const Impersonating = z.looseObject({
  users: z
    .array(
      z.looseObject({
        user: z.looseObject({
          as: z.string().optional(),
          "as-uid": z.string().optional(),
          "as-groups": z.array(z.string()).optional(),
          "as-user-extra": z.unknown().optional(),
        }),
      }),
    )
    .max(1),
});

/**
 * Separates a kubeconfig into its own login, which requests tokens, and the user it impersonates, which applies if no
 * account is named.
 */
function withoutImpersonation(kubeconfig: string): { text: string; as: Acting } {
  const { users, ...rest } = Impersonating.parse(parse(kubeconfig));
  const { as, "as-uid": uid, "as-groups": asGroups, "as-user-extra": extra, ...login } = users[0]?.user ?? {};
  if (extra !== undefined)
    throw new PreviewRefusedError("a preview cannot act as a user with as-user-extra in a kubeConfig");
  return {
    text: JSON.stringify({ ...rest, users: [{ ...users[0], user: login }] }),
    as: { as, asGroups, headers: uid === undefined ? {} : { "Impersonate-Uid": uid } },
  };
}
