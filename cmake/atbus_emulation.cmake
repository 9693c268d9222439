# How tests run in an emulator (the preset aarch64). doc/reliability.md says which are left out and why.
set(atbus_emulated_programs
    unit_core
    unit_buffer
    unit_channel
    unit_delivery
    unit_protocol
    unit_tls
    conformance_channel
    conformance_node
    hostile_channel
    hostile_protocol)
set(atbus_not_emulated
    BellRhythm.*
    EncryptedChannel.CarriesMessagesOfEachLengthInOrder
    EncryptedChannel.NeverSleepsOnAMessageThatHasArrived
    EncryptedConnection.CarriesMessagesBothWaysAndClosesCleanly
    EncryptedConnection.ClosesCleanlyWithoutRoomForTheEndOfTls
    FlowModel.KeepsEveryPromiseInRandomRuns
    LaneTable.OfManyLanesAllHeldIsRefusedSoon
    Mapping.PrefaultPutsEveryPageInPlace
    NameOfASegment.MarkedRetiredAndStillThereIsRefusedSoonToSenders
    SendQueueModel/*.AgreesWithADequeAfterEveryStep
    TlsCertificate.ThatExpiresWhileTheProcessRunsIsRefused
    */ChannelOutOfMemory.*
    */Connection.ClosesFromBothEndsAtOnce/*
    */Connection.DeliversAllThatWasAcceptedBeforeAGracefulClose/*
    */Connection.GoesOnWhenBothEndsSendIntoFullQueues/*
    */Connection.LivesWithTwoHundredOthersInOneSet/*
    */Connection.ReceivesTheOtherHalfWhileItCloses/*
    */Connection.ResendsOnTheSameConnectionAlsoBehindABegunMessage/*
    */FaultProxy.*
    */Loop.TurnsNoMoreOftenThanItIsAskedToWhileIdle/*
    */NetworkPair.*
    */Node.RunsUntilItIsStoppedAndWhatWasAcceptedIsSettled/*
    */NodeDirectory.*
    */NodeResources.AnIdlePairUsesNoCpu/*
    */NodeTree.APollLooksAtTheClockAlsoWithinManySmallBatches/*
    */NodeTree.APollThatIsOverInABatchReadsNothingMore/*
    */StreamSender.CloseHandsOverWhatWasNotWritten/*
    */StreamSender.EverythingAcceptedBeforeCloseArrives/*
    */StreamLoop.IdleWithAThousandConnectionsSleeps/*
    */Waiting.IdlePairUsesNoCpu/*)

# Starting a program takes an emulator a tenth of a second and more. So it runs not once per test, but
# in a few parts, which keep several cores busy. A part takes half a minute, on a busy machine ten times
# as long.
function(atbus_add_emulated_tests target name)
  list(JOIN atbus_not_emulated ":" left_out)
  set(parts 4)
  foreach(part RANGE 1 ${parts})
    math(EXPR index "${part} - 1")
    add_test(NAME ${name}/part_${part} COMMAND ${target} --gtest_brief=1 "--gtest_filter=-${left_out}")
    set_tests_properties(
      ${name}/part_${part}
      PROPERTIES TIMEOUT 900 ENVIRONMENT
                 "GTEST_TOTAL_SHARDS=${parts};GTEST_SHARD_INDEX=${index}")
  endforeach()
endfunction()
