/** The token of a service account, renewed before it expires. */
import { ApiError, PreviewRefusedError } from "../errors.ts";
import type { Key } from "../model.ts";
import type { ServiceAccounts } from "../ports.ts";

export interface AccountToken {
  /** Throws PreviewRefusedError if no token can be issued before an account or a permission is changed. */
  get(): Promise<string>;
  /** Discards a token that was refused, so that `get` requests another one. */
  drop(): void;
}

interface Given {
  readonly token: string;
  readonly at: number;
}

/** The shortest lifetime that the API server accepts. */
const seconds = 600;
const freshMs = 300_000;
/** A little before the token expires for the API server. */
const usableMs = (seconds - 30) * 1_000;

/** `whose`: the login that requests the token, as messages name it. */
export function createAccountToken(
  { namespace, name }: Key,
  {
    serviceAccounts,
    whose,
    now,
  }: { serviceAccounts: Pick<ServiceAccounts, "createToken">; whose: string; now: () => number },
): AccountToken {
  let given: Given | undefined;
  let asked: Promise<Given> | undefined;

  async function ask(): Promise<Given> {
    const at = now();
    try {
      return { token: await serviceAccounts.createToken(namespace, name, { seconds }), at };
    } catch (error) {
      throw explain(error);
    }
  }

  function explain(error: unknown): unknown {
    if (!(error instanceof ApiError)) return error;
    const account = `service account ${namespace}/${name}`;
    if (error.status === 404) {
      return new PreviewRefusedError(
        `a preview needs the ${account}, which does not exist; create it (docs/preview-security.md), or configure another`,
      );
    }
    if (error.status !== 403) return error;
    return new PreviewRefusedError(
      `${whose} is not allowed to create a token for the ${account}, which a preview needs: ${error.message}; grant it "create" on serviceaccounts/token of that account (see docs/rights.md)`,
    );
  }

  return {
    async get() {
      if (given && now() - given.at < freshMs) return given.token;
      asked ??= ask().finally(() => (asked = undefined));
      try {
        return (given = await asked).token;
      } catch (error) {
        if (given && !(error instanceof PreviewRefusedError) && now() - given.at < usableMs) return given.token;
        throw error;
      }
    },
    drop() {
      given = undefined;
    },
  };
}
