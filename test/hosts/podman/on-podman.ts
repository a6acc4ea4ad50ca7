/** Brought in first, it has all suites of a file run on Podman, whatever the others run on. */

process.env.CELLA_TEST_ENGINE = 'podman';
