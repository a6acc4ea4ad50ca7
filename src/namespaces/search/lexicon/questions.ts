/** Turns of phrase that tell what a question is after. */
export const questions = `
how_far: distance kilometres miles
how_long: duration until time days
how_old: age years birth
how_many: count number quantity
how_much: price cost amount
how_big: size large count
how_fast: speed tempo latency
how_often: frequency interval
how_heavy: weight mass
how_tall: height elevation
how_hard: difficulty readability
how_hot: temperature weather
how_cold: temperature weather
how_steep: elevation slope
how_full: usage disk
how_similar: similarity compare
how_likely: probability risk predict
how_good: quality score accuracy
how_well: accuracy perform score
what_time: time timezone clock
what_day: date weekday
what_does_mean: definition meaning
what_changed: diff changes changelog
what_is_new: changelog changes release
what_happened: log history news
what_else: recommend similar
what_if: simulate scenario
what_language: language detect
what_colour: colour
what_to_cook: recipe dish
what_to_eat: meal recipe
what_to_buy: shopping gift
what_to_wear: clothes packing weather
where_is: location find track
where_did: location track
where_can: find nearby
where_does: locate source
who_wrote: author book blame
who_made: author creator
who_owns: owner whois registration
who_is: person encyclopedia
who_sang: artist song
who_directed: movie director film
who_acted: movie cast
when_is: date time calendar
when_was: date history commit
when_does: time schedule
when_did: date history
why_is: explain reason cause
why_does: explain reason cause
which_one: choose compare best
is_it_safe: security risk check
is_it_true: verify fact
is_there: find exist
am_i: check
do_i_need: requirement weather
should_i: recommend decide
may_i: allowed permission
help_me: assist explain
in_case: backup safety
get_rid: remove delete
take_up: size space usage
taking_up: size space usage largest
look_like: appearance picture
looks_like: appearance picture
up_to_date: update outdated latest
out_of_date: outdated old update
run_out: low reorder expire
turn_into: convert
turn_on: switch start
turn_off: switch stop
turn_up: increase raise
turn_down: decrease lower
so_far: history progress
per_month: monthly
per_year: yearly annual
each_other: between compare
at_once: simultaneous batch many
in_bulk: batch many
batch: many bulk mass at_once several
all_of_them: every batch
one_by_one: each sequence
step_by_step: steps procedure
word_for_word: exact literal
by_heart: memorise learn
`;
