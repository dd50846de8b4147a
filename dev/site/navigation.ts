/** The pages of the site and their order. Paths are relative to the root of the repository. */
export interface Section {
  readonly title: string;
  readonly pages: readonly string[];
}

/** The first page is the start page. */
export const navigation: readonly Section[] = [
  {
    title: "Start",
    pages: [
      "README.md",
      "docs/quick-start.md",
      "docs/install.md",
      "docs/deployments.md",
      "docs/pull-requests.md",
      "docs/notifications.md",
      "docs/monorepos.md",
      "docs/comparison.md",
    ],
  },
  {
    title: "Connect a git host",
    pages: ["docs/connect-github.md", "docs/connect-gitlab.md", "docs/connect-gitea.md", "docs/webhooks.md"],
  },
  {
    title: "Migrate",
    pages: [
      "docs/migrate-from-kluctl-controller.md",
      "docs/controller-run.md",
      "docs/migrate.md",
      "docs/flux.md",
      "docs/migrate-from-flux.md",
      "docs/migrate-from-argo-cd.md",
    ],
  },
  {
    title: "Secure",
    pages: ["SECURITY.md", "docs/preview-security.md", "docs/rights.md", "docs/hardening.md", "docs/audit.md"],
  },
  {
    title: "Operate",
    pages: [
      "docs/page.md",
      "docs/troubleshooting.md",
      "docs/runbook.md",
      "docs/metrics.md",
      "docs/alerts.md",
      "docs/tracing.md",
      "docs/reliability.md",
      "docs/performance.md",
      "docs/image.md",
    ],
  },
  {
    title: "Reference",
    pages: ["docs/cli.md", "docs/configuration.md", "docs/resource.md", "chart/README.md", "CHANGELOG.md"],
  },
  {
    title: "Contribute",
    pages: ["docs/architecture.md", "CONTRIBUTING.md", "examples/deployments/README.md", "examples/shop/README.md"],
  },
];

export const sitePages: readonly string[] = navigation.flatMap(({ pages }) => pages);
