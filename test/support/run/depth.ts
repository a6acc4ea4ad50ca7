/**
 * How much of the shared suites runs on `container`, on `in-process` and on Redis. What does not depend on where kernels run
 * or things are kept is shown on `subprocess` with files in every run; `npm run test:all` runs all of it everywhere.
 */

export const everything = process.env.CELLA_TEST_ALL === '1';
