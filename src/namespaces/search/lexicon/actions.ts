/** What is done: verbs, with the nouns made of them. */
export const actions = `
find search look_for look_up lookup locate seek discover hunt retrieve spot ~detect ~identify
detect spot notice recognise recognize identify discover sense ~find
list show display enumerate overview view see print ~report
read load open parse import ingest ~fetch ~get
fetch get grab retrieve download pull obtain ~load ~read
download save grab pull ~fetch ~get
upload put push send store ~save ~copy
write save store export output record ~create ~log
create make generate build produce compose new construct ~write ~draft ~prepare
generate create produce make synthesize invent ~new ~random
draft write compose prepare author formulate phrase ~create
prepare draft make plan ~create ~build
delete remove erase drop discard purge get_rid eliminate wipe clear unlink ~clean ~strip
clean tidy cleanup purge sweep wash sanitize scrub ~remove ~delete
strip remove drop peel ~delete ~clean
change modify edit alter update adjust adapt revise transform mutate ~set
convert transform turn change translate transcode port translate switch ~make ~reformat
update upgrade refresh modernize renew newest latest ~change ~new
replace substitute swap exchange overwrite ~change
rename name retitle relabel new_name
copy duplicate clone replicate mirror ~backup ~sync
sync synchronize mirror replicate keep_in_step ~copy
move relocate transfer shift migrate ~copy
join merge combine concatenate append glue unite unify union put_together bundle attach link ~add
split cut divide separate chop break slice chunk segment partition ~part
cut trim crop clip chop slice shorten ~split ~remove
compress shrink reduce pack zip squeeze smaller minify deflate ~archive ~small
extract unpack unzip get_out pull_out take_out pull decompress untar ~collect ~get
collect gather harvest extract aggregate accumulate get_all ~list
count tally how_many number quantity amount enumerate ~sum ~measure
sum total add aggregate tally add_up ~count
compute calculate work_out determine evaluate reckon figure_out ~estimate
estimate guess approximate predict assess project ~calculate ~compute
measure gauge quantify assess benchmark score ~compute ~how
compare contrast difference different diff differ versus against distinguish ~similar
check verify validate test inspect examine ensure control confirm audit is_it whether ~review
test check try trial experiment exam ~verify
review critique inspect examine evaluate comment feedback assess ~check
explain describe clarify understand interpret tell meaning mean elucidate comprehend ~why
fix repair correct mend solve debug cure patch amend ~improve
improve optimise optimize enhance better tune refine boost ~best
optimise optimize maximise maximize minimise minimize best optimum optimal tune ~improve
tune optimise optimize adjust calibrate settings ~improve
sort order rank arrange organise organize group classify ~label
classify categorize categorise label assign sort tag kind type class category bucket segment ~group
label tag annotate mark name ~classify
group cluster segment bucket class organise similar ~sort
filter select choose pick exclude screen ~remove
choose select pick decide choice option ~recommend
recommend suggest propose advise idea tip advice what_should ~choose
suggest recommend propose idea could ~ideas
run execute launch start perform invoke fire trigger do ~call
start launch run boot begin open activate spin_up ~turn_on
stop end kill terminate quit halt abort cancel shut_down close ~finish
restart reboot relaunch start_again ~reset ~start
cancel unsubscribe opt_out terminate quit leave ~stop ~end
undo revert rollback roll_back go_back restore back previous last ~bring_back
restore recover bring_back revert ~undo
send deliver transmit dispatch forward submit push notify tell write_to ~post ~mail
post publish share announce submit put_on ~send
notify alert tell inform remind warn let_me_know notification message ping ~send
remind reminder remember memory forget alarm wake notify alert ~todo
schedule plan appointment book arrange set_up timetable calendar agenda organise ~event
book reserve reservation order ~schedule ~ticket
watch monitor observe track poll supervise wait surveil keep_an_eye ~notify
track follow trace monitor log ~watch ~where
record log note write_down register keep_track ~save
call phone ring dial telephone ~invoke
answer reply respond response react ~question
ask question query request inquire ~answer
translate translation localize say_in ~convert
summarise summarize summary shorten gist digest brief briefly key_points abstract condense overview essence tldr recap ~short
rewrite rephrase reword paraphrase reformulate ~change
draw plot graph chart visualise visualize render diagram sketch picture illustrate figure paint ~show
render draw display turn_into ~convert
print printable printer paper ~output
simulate simulation model pretend imitate mimic scenario ~fake ~mock
mock fake stub dummy simulate pretend placeholder canned ~test
predict forecast future expect anticipate next will project prognosis likely ~estimate
learn train teach model study fit ~classifier
train learn teach fit ~model
deploy release ship roll_out rollout publish production go_live launch ~install ~version
install setup set_up add ~deploy
build compile make assemble construct ~create
scale resize grow more_instances enlarge ~size
apply use carry_out perform ~run
encode decode encoding ~convert
encrypt encipher cipher protect secure lock unreadable secret scramble ~password ~hide
decrypt decipher unlock ~open ~decode
protect secure lock guard safe shield ~encrypt ~password
hide conceal mask redact anonymise anonymize blur unrecognisable black_out censor obscure privacy ~remove
anonymise anonymize redact privacy personal private de-identify strip hide ~remove
sign signature autograph ~certificate
fill enter complete populate insert ~add
add insert append put attach include ~new ~create
set adjust put configure control ~change
switch toggle turn_on turn_off flip ~change
solve solution resolve answer ~equation
match reconcile agree correspond fit pair ~compare
reconcile agree match balance books ~compare
rate score rank grade evaluate ~measure
decide whether choose conclude won win winner verdict ~which
wait until pause sleep ~watch
buy purchase acquire shop get_from order ~shopping
sell sale vend ~sales
pay payment owe spend cost charge bill ~money
work job labour employ task ~project
eat food meal cook ~drink
travel trip journey go visit tour holiday vacation ~route
show display view present visible look ~list
rotate turn spin upright sideways tilt orientation flip ~degrees
smooth denoise filter noise jitter ~average
burn embed overlay hardcode ~add
stamp overlay put_on mark ~watermark
locate where position place find ~coordinates
speak say voice aloud talk speech utter spoken ~read ~audio
transcribe write_down dictation said transcript speech_to_text ~speech
memorise memorize remember learn study ~flashcards
file report submit open ~create
rank order sort first top best ~score
leave quit go_away cancel depart departure ~churn
`;
